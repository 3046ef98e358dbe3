"""`pool`: several servers as one engine.

A request goes to one member, and its text takes the same path as that of the `openai` engine. If
the member fails before any of the answer was handed on, another member gets the request; after
that, the answer ends with the member's error. Answers of two members are never joined.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Final

from torvyn._io.background_loop import background_loop
from torvyn.engine.engine import Engine
from torvyn.engine.openai.client import ClientName
from torvyn.engine.openai.engine import OpenAI
from torvyn.engine.openai.request_body import Api, must_be_prompt
from torvyn.engine.pool.health import HealthChecks
from torvyn.engine.pool.limits import Limits, bad_option
from torvyn.engine.pool.member import Member, Outcome
from torvyn.engine.pool.members import Lease, Members
from torvyn.engine.pool.membership import Membership, Supplier
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.errors import TorvynError

FLOW: Final = "member"
"""The name of the flow, and so of the model, that a member on Ray serves."""
SESSION_FIELDS: Final = ("session_id", "prompt_cache_key")
"""Fields of a request that name its session, if it has no `user`."""
_OUTCOMES: Final[dict[str, Outcome]] = {
    "engine.upstream-busy": "busy",
    "engine.upstream-cut": "failed",
    "engine.upstream-denied": "failed",
    "engine.upstream-down": "gone",
    "engine.upstream-error": "failed",
    "engine.upstream-failed": "failed",
    "engine.upstream-garbage": "failed",
    "engine.upstream-refused": "refused",
    "engine.context-full": "refused",
    "engine.upstream-redirect": "failed",
    "engine.upstream-slow": "failed",
    "engine.model-missing": "failed",
}
"""What the errors of a member mean for it; any other is the request's fault."""


class Pool(Engine):
    """Members at the addresses `members`, which usually end in `/v1`."""

    name: ClassVar[str] = "pool"
    limits_tokens: ClassVar[bool] = True

    def __init__(
        self,
        *,
        members: Sequence[str] = (),
        model: str | None = None,
        on: str | None = None,
        member: Mapping[str, Any] | None = None,
        place: Mapping[str, Any] | None = None,
        start_timeout_s: float = 300.0,
        api: Api = "chat",
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        affinity: bool = True,
        health_path: str = "models",
        connect_timeout_s: float = 2.0,
        first_token_timeout_s: float = 120.0,
        idle_timeout_s: float = 60.0,
        extra_body: Mapping[str, Any] | None = None,
        forward_unknown: bool = True,
        hide_not_found: bool = False,
        client: ClientName | None = None,
        **limits: Any,
    ) -> None:
        """With `on="ray"` or the address of a cluster, Ray starts `min_members` to `max_members`
        members; `member` says what each runs, such as `{"engine": "transformers", "model": ...}`,
        and `place` what it needs: `cpus`, `gpus`, `resources`. `limits` are the fields of `Limits`.
        The other options are those of the `openai` engine, for every member."""
        super().__init__()
        _check_kind(members, model, on, member)
        self._limits = Limits.of(limits)
        self.members = Members(self._limits, are_supplied=on is not None)
        self.takes_extra = forward_unknown
        self._api = api
        self._model = model or FLOW
        self._has_affinity = affinity
        self._options: dict[str, Any] = {
            "model": self._model,
            "api": api,
            "api_key": api_key if api_key is not None else os.environ.get(api_key_env, ""),
            "connect_timeout_s": connect_timeout_s,
            "first_token_timeout_s": first_token_timeout_s,
            "idle_timeout_s": idle_timeout_s,
            "extra_body": extra_body,
            "forward_unknown": forward_unknown,
            "hide_not_found": hide_not_found,
            "client": client,
            "retries": 0,
        }
        self.health = HealthChecks(self.members, health_path)
        for url in members:
            self.members.add(self._new_member(url))
        self._supplier = None if on is None else _supplier(on, member, place)
        parts = (self.members, self.health, self._new_member, self._supplier)
        self.membership = Membership(*parts, start_timeout_s)
        if self._supplier is not None:
            self._start_all()
        self._watching = self.change(self.membership.run)

    def _start_all(self) -> None:
        """As engines do that load a model, it opens when it can answer."""
        try:
            self.change(self.membership.start_all).result()
        except BaseException:
            assert self._supplier is not None
            self._supplier.close()
            raise

    def change(self, make: Callable[[], Coroutine[Any, Any, None]]) -> Future[None]:
        """Runs a method of `membership` on the background loop."""
        return asyncio.run_coroutine_threadsafe(make(), background_loop())

    def _new_member(self, url: str, key: str | None = None) -> Member:
        options = self._options if key is None else {**self._options, "api_key": key}
        engine = OpenAI(base_url=url, **options)
        return Member(url.rstrip("/"), engine, self._limits.max_in_flight, key=options["api_key"])

    def describe(self) -> Mapping[str, Any]:
        return {"engine": self.name, "model": self._model, "members": len(self.members)}

    def to_dict(self) -> dict[str, Any]:
        """The state of the pool: its members, and what waits."""
        return {
            "model": self._model,
            **self.members.to_dict(),
            "replacement": self.membership.progress,
        }

    def check(self, request: Request) -> None:
        super().check(request)
        must_be_prompt(request, self._api)

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        session = self._session(request)
        tried: list[Member] = []
        refusal: TorvynError | None = None
        while True:
            try:
                lease = await self.members.acquire(session, tried)
            except TorvynError:
                # What a member has answered says more than that no other one can be asked.
                if refusal is not None:
                    raise refusal from None
                raise
            self._work_begins(request)
            outcome: Outcome = "left"
            member = lease.member
            answer = member.engine.new_answer(request)
            path = self._direct_path(request)
            try:
                # Closed at once, not when the garbage collector finds it: that ends the request.
                steps = member.engine.steps(request, answer, path)
                async with contextlib.aclosing(steps):  # type: ignore[type-var]
                    async for step in steps:
                        yield step
                outcome = "done"
                return
            except TorvynError as error:
                outcome = _OUTCOMES.get(error.code, "left")
                may_help = outcome not in ("left", "refused") and not answer.has_begun
                if not may_help or len(tried) >= self._limits.retries:
                    if outcome == "gone" and refusal is not None:
                        raise refusal from None
                    raise
                tried.append(member)
                refusal = refusal if error.reply is None else error
                self.members.retries += 1
            finally:
                self._release(request, lease, outcome)

    def close(self) -> None:
        super().close()
        self._watching.cancel()
        self.members.close()
        for member in self.members:
            member.engine.close()
        if self._supplier is not None:
            self._supplier.close()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def _session(self, request: Request) -> str | None:
        if not self._has_affinity:
            return None
        named = (request.extra.get(name) for name in SESSION_FIELDS)
        found = request.user or next((name for name in named if name), None)
        return None if found is None else str(found)

    def _release(self, request: Request, lease: Lease, outcome: Outcome) -> None:
        with self._lock:
            run = self._runs.get(request.id)
        if outcome == "done" and run is not None and not run.has_content:
            outcome = "empty"
        figures = {} if run is None or outcome != "done" else run.timing.figures()
        first_s = figures.get("ttft_s")
        queue_s = figures.get("queue_s", 0.0)
        self.members.release(lease, outcome, None if first_s is None else first_s - queue_s)
        is_over = lease.member.is_leaving and not lease.member.in_flight
        if is_over or outcome in ("failed", "gone"):
            self.membership.kick()


def _check_kind(
    members: Sequence[str], model: str | None, on: str | None, member: Mapping[str, Any] | None
) -> None:
    """Raises if it is neither a pool of fixed members nor one on Ray."""
    if on is None:
        if not members or member is not None:
            raise bad_option("`members` are missing", 'give their addresses, or `on = "ray"`')
        if model is None:
            raise bad_option("`model` is missing", "the name of the model at the members")
    elif members or model is not None:
        raise bad_option("on Ray, the pool starts its members", "leave out `members` and `model`")
    elif member is None:
        hint = 'such as { engine = "transformers", model = "Qwen/Qwen3-8B" }'
        raise bad_option("`member` is missing: what each member runs", hint)


def _supplier(
    on: str, member: Mapping[str, Any] | None, place: Mapping[str, Any] | None
) -> Supplier:
    from torvyn.engine.pool.ray_members import RayMembers

    return RayMembers(on, FLOW, member or {}, place or {})
