"""One provocation for each code of the engines."""

import asyncio
import contextlib
import importlib.util
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torvyn
from torvyn._flow.flow import Flow
from torvyn._io.background_loop import background_loop
from torvyn.components import Collect
from torvyn.engine import ChoiceStep, Engine, Generation, Scripted, Step, open
from torvyn.engine.local.engine import must_be_answered
from torvyn.engine.pool.engine import Pool
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.engine.request import Request
from torvyn.engine.service.service import Service


class Says(Engine):
    """Makes one step, of whatever it is given; an exception is raised."""

    def __init__(self, thing: object) -> None:
        super().__init__()
        self._thing = thing

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        if isinstance(self._thing, Exception):
            raise self._thing
        yield Step((self._thing,))  # type: ignore[arg-type]


def _request_invalid(_folder: Path) -> None:
    Request.make("hello", temperature=-1)


def _already_read(_folder: Path) -> None:
    generation = Scripted().generate("hello")
    list(generation)
    list(generation)


def _closed(_folder: Path) -> None:
    engine = Scripted()
    engine.close()
    engine.complete("hello")


def _request_running(_folder: Path) -> None:
    engine = Scripted(delay=60)
    # The error's traceback refers to this frame, so nothing here ends before it is collected.
    with engine.generate("hello", request_id="one") as first, closing(iter(first)) as deltas:
        next(deltas)
        engine.complete("hello", request_id="one")


def _would_block(_folder: Path) -> None:
    async def read(generation: Generation) -> None:
        list(generation)

    asyncio.run_coroutine_threadsafe(read(Scripted().generate("x")), background_loop()).result(5)


def _upstream() -> Any:
    """The fake upstream of the engines' own tests."""
    path = Path(__file__).parents[1] / "fake_upstream.py"
    spec = importlib.util.spec_from_file_location("upstream_of_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _asked(reply: Callable[[Any], Any], **options: Any) -> Callable[[Path], None]:
    """One request to an upstream that replies so."""

    def run(_folder: Path) -> None:
        fake = _upstream()
        options.setdefault("retries", 0)
        with (
            fake.running(reply(fake)) as upstream,
            open("openai", base_url=upstream.url, model="m", **options) as engine,
        ):
            engine.complete("hello")

    return run


def _down(_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with open("openai", base_url=url, model="m", retries=0) as engine:
            engine.complete("hello")


def _without(package: str, **options: Any) -> Callable[[Path], None]:
    """The engine of that name when its package is not installed."""

    def run(_folder: Path) -> None:
        with mock.patch.dict(sys.modules, {package: None}):
            open("mlc", **options)

    return run


def _unusable(_folder: Path) -> None:
    def refuse(model: str) -> None:
        raise RuntimeError("no such model")

    package = SimpleNamespace(AsyncMLCEngine=refuse)
    with mock.patch.dict(sys.modules, {"mlc_llm": package}):
        open("mlc", model="m")


async def _until_left(exchange: Any) -> None:
    await exchange.until_left()


def _context_full(_folder: Path) -> None:
    told: dict[str, Any] = {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 6031}}
    must_be_answered(told, "small.gguf", 4096)


def _flow_unfit(_folder: Path) -> None:
    Service.open(Flow(["a"], Collect()).plan)


def _prompt_text_unknown(_: Path) -> object:
    def forget(element: torvyn.Element) -> torvyn.Output:
        return torvyn.Output(element.text, attributes={"choice": 7})

    guard = PromptGuard(lambda: torvyn.Flow(torvyn.processor(forget)))
    return Scripted("a").generate("x", prompt_guard=guard).complete()


def _pool(**options: Any) -> Pool:
    return Pool(members=["http://127.0.0.1:9/v1"], model="m", max_wait_s=0.01, **options)


def _pool_down(_folder: Path) -> None:
    with _pool(retries=0) as pool:
        with contextlib.suppress(torvyn.Unavailable):
            pool.complete("hello")
        pool.complete("hello")


def _pool_full(_folder: Path) -> None:
    with _pool(max_waiting=0) as pool:
        next(iter(pool.members)).is_draining = True
        pool.complete("hello")


def _pool_fixed(_folder: Path) -> None:
    with _pool() as pool:
        pool.change(pool.membership.replace_all).result()


def _member_unknown(_folder: Path) -> None:
    with _pool() as pool:
        pool.members.find("gpu9")


def _member_unwell(_folder: Path) -> None:
    with _pool(start_timeout_s=0.01) as pool:
        pool.change(lambda: pool.membership.add("http://127.0.0.1:9/v2")).result()


CASES: dict[str, Callable[[Path], object]] = {
    "engine.already-read": _already_read,
    "engine.bad-option": lambda _: open("scripted", sript="a"),
    "engine.closed": _closed,
    "engine.context-full": _context_full,
    "engine.failed": lambda _: Says(KeyError("x")).complete("hello"),
    "engine.flow-unfit": _flow_unfit,
    "engine.member-unknown": _member_unknown,
    "engine.member-unwell": _member_unwell,
    "engine.model-missing": _asked(lambda fake: fake.status(404)),
    "engine.model-unusable": _unusable,
    "engine.package-missing": _without("mlc_llm", model="m"),
    "engine.pool-down": _pool_down,
    "engine.pool-fixed": _pool_fixed,
    "engine.pool-full": _pool_full,
    "engine.prompt-text-unknown": _prompt_text_unknown,
    "engine.request-invalid": _request_invalid,
    "engine.request-running": _request_running,
    "engine.scripted-failure": lambda _: Scripted(fail_at=0).complete("hello"),
    "engine.step-invalid": lambda _: Says(ChoiceStep(7)).complete("hello"),
    "engine.unknown": lambda _: open("scriptd"),
    "engine.upstream-busy": _asked(lambda fake: fake.status(503)),
    "engine.upstream-cut": _asked(lambda fake: fake.says(fake.delta("a"))),
    "engine.upstream-denied": _asked(lambda fake: fake.status(401)),
    "engine.upstream-down": _down,
    "engine.upstream-error": _asked(lambda fake: fake.says(fake.event({"error": "boom"}))),
    "engine.upstream-failed": _asked(lambda fake: fake.status(501)),
    "engine.upstream-garbage": _asked(lambda fake: fake.says(fake.event("{"))),
    "engine.upstream-redirect": _asked(lambda fake: fake.status(307)),
    "engine.upstream-refused": _asked(lambda fake: fake.status(400)),
    "engine.upstream-slow": _asked(lambda fake: _until_left, first_token_timeout_s=0.02),
    "engine.would-block": _would_block,
}
