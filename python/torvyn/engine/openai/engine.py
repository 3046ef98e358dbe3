"""`openai`: any upstream that speaks OpenAI's protocol, such as vLLM, SGLang, llama.cpp or Ollama.

One request is one streamed HTTP response. It is retried only before any of it has arrived. Closing
the connection tells the upstream to stop. A truncated answer is an error, never a shorter answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from torvyn._io.backoff import Retries, asked_pause_s
from torvyn.engine.engine import Engine
from torvyn.engine.openai.client import ClientName, Direct, UpstreamClient, UpstreamResponse
from torvyn.engine.openai.failures import Upstream, log
from torvyn.engine.openai.request_body import Api, Shape, body_of, must_be_prompt
from torvyn.engine.openai.stream import MAX_LINE_BYTES, UpstreamAnswer
from torvyn.engine.request import Request
from torvyn.engine.step import Step
from torvyn.errors import InvalidInput, TorvynError
from torvyn.protocol import traceparent

if TYPE_CHECKING:
    from torvyn.engine.answer.direct_path import DirectPath

DEFAULT_CLIENT: ClientName = "native"
_FIRST_PAUSE_S: Final = 0.25
_RETRIES_S: Final = 8.0
"""No retry begins later after the request, whatever its attempts and pauses have taken. What the
last one answers can then still be a status for the clients of a server, which waits for
`first_byte_wait`, 12 s. They hear of a longer pause, and can keep it themselves."""
_MOST_BODY: Final = 64 * 1024
_LEAST_LINE_BYTES: Final = 1024
_ID: Final = re.compile(r"[!-~]{1,128}")
"""What a header can carry; a program may give its requests any ids."""


class OpenAI(Engine):
    """An upstream at `base_url`, which usually ends in `/v1`."""

    name: ClassVar[str] = "openai"
    limits_tokens: ClassVar[bool] = True

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api: Api = "chat",
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        headers: Mapping[str, str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_tokens_field: str = "max_tokens",
        asks_usage: bool = True,
        connect_timeout_s: float = 10.0,
        first_token_timeout_s: float = 120.0,
        idle_timeout_s: float = 60.0,
        retries: int = 2,
        max_line_bytes: int = MAX_LINE_BYTES,
        forward_unknown: bool = True,
        hide_not_found: bool = False,
        client: ClientName | None = None,
    ) -> None:
        """Time limits: to connect; from the request to the first token, with retries; and from one
        token to the next. `base_url` defaults to `OPENAI_BASE_URL`.

        `max_line_bytes` limits the lines of its response. With `forward_unknown`, the `extra`
        fields of a request are sent to the upstream. With `hide_not_found`, a 404 of the upstream
        is a 502 for the clients of a server: its operator has chosen the model. `client` sends the
        requests; by default, the native one.
        """
        super().__init__()
        self._url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL"))
        if api not in ("chat", "completions"):
            raise _bad_option(f"`api` is `chat` or `completions`, not {api!r}")
        limits = (connect_timeout_s, first_token_timeout_s, idle_timeout_s)
        if min(limits) <= 0 or retries < 0:
            raise _bad_option("time limits must be above 0, and `retries` 0 or more")
        if max_line_bytes < _LEAST_LINE_BYTES:
            raise _bad_option(f"`max_line_bytes` is {_LEAST_LINE_BYTES} or more")
        self._shape = Shape(model, api, max_tokens_field, asks_usage, dict(extra_body or {}))
        self._key = api_key if api_key is not None else os.environ.get(api_key_env)
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self._headers = {"accept": "text/event-stream", "content-type": "application/json", **given}
        if self._key:
            self._headers.setdefault("authorization", f"Bearer {self._key}")
        self._connect_s, self._first_s, self._idle_s = limits
        self._retries = retries
        self._max_line_bytes = max_line_bytes
        self.takes_extra = forward_unknown
        self._upstream = Upstream(url=self._url, secret=self._key, hides_not_found=hide_not_found)
        self._client = _client(client or DEFAULT_CLIENT, self._upstream, connect_timeout_s)

    def describe(self) -> Mapping[str, Any]:
        return {"engine": self.name, "base_url": self._url, "model": self._shape.model}

    def check(self, request: Request) -> None:
        super().check(request)
        must_be_prompt(request, self._shape.api)

    def new_answer(self, request: Request) -> UpstreamAnswer:
        limit = self._max_line_bytes
        return UpstreamAnswer(request.n, self._shape.api, self._upstream, limit)

    async def steps(
        self,
        request: Request,
        answer: UpstreamAnswer | None = None,
        path: DirectPath | None = None,
    ) -> AsyncIterator[Step]:
        """An engine that has this one as its member passes the answer, which it may ask how far it
        has come, and the direct path of its own run."""
        deadline_s = asyncio.get_running_loop().time() + self._first_s
        if answer is None:
            answer, path = self.new_answer(request), self._direct_path(request)
        direct = None if path is None else answer.direct(path, self._idle_s)
        try:
            body = json.dumps(body_of(request, self._shape)).encode()
            answer.response = await self._request(request.id, body, deadline_s, direct)
            async for step in answer.steps(deadline_s, self._idle_s, self._too_slow):
                yield step
        except TorvynError as error:
            log(error, request.id)
            raise
        finally:
            answer.close()

    def close(self) -> None:
        super().close()
        self._client.close()

    async def aclose(self) -> None:
        super().close()
        await self._client.aclose()

    def _too_slow(self, *, has_begun: bool = False) -> TorvynError:
        if has_begun:
            return self._upstream.timeout("sent nothing", self._idle_s, "idle_timeout_s")
        return self._upstream.timeout("sent no token", self._first_s, "first_token_timeout_s")

    async def _request(
        self, id: str, body: bytes, deadline_s: float, direct: Direct | None
    ) -> UpstreamResponse:
        """Sends the request, with retries, until a response has status 200."""
        headers = self._headers_for(id)
        path = "chat/completions" if self._shape.api == "chat" else "completions"
        time_s = asyncio.get_running_loop().time
        for_s = min(deadline_s - time_s(), _RETRIES_S)
        retries = Retries(self._retries, for_s, _FIRST_PAUSE_S, clock=time_s)
        retries.begin()
        while True:
            problem, pause_s = None, None
            try:
                response = await self._client.post(path, headers, body, deadline_s, direct)
                if response.status == 200:
                    return response
                problem, pause_s = await self._rejection(response, deadline_s)
            except TimeoutError:
                raise self._too_slow() from None
            except TorvynError as error:
                problem = error
            may_help = problem.code in ("engine.upstream-down", "engine.upstream-busy")
            if problem.reply is not None and problem.reply.headers.get("x-should-retry") == "false":
                may_help = False
            delay_s = retries.next_delay_s(pause_s) if may_help else None
            if delay_s is None:
                raise problem
            await asyncio.sleep(delay_s)

    def _headers_for(self, id: str) -> Mapping[str, str]:
        headers = self._headers
        if "x-request-id" not in headers and _ID.fullmatch(id):
            headers = {**headers, "x-request-id": id}
        if (here := traceparent.CURRENT.get()) is not None:
            headers = {**headers, "traceparent": here.traceparent}
        return headers

    async def _rejection(
        self, response: UpstreamResponse, deadline_s: float
    ) -> tuple[TorvynError, float | None]:
        """The error for the status, and how long to wait before a retry."""
        data = b""
        try:
            while len(data) < _MOST_BODY and (piece := await response.read(deadline_s)):
                data += piece
        except TimeoutError:
            raise
        except (OSError, TorvynError):
            pass  # The status says enough.
        finally:
            response.close()
        body = data[:_MOST_BODY].decode(errors="replace")
        headers = response.headers
        problem = self._upstream.rejection(response.status, body, headers)
        return problem, asked_pause_s(headers)


def _client(name: ClientName, upstream: Upstream, connect_timeout_s: float) -> UpstreamClient:
    if name == "native":
        from torvyn.engine.openai.native_client import NativeClient

        return NativeClient(upstream, connect_timeout_s)
    if name == "aiohttp":
        from torvyn.engine.openai.aiohttp_client import AiohttpClient

        return AiohttpClient(upstream, connect_timeout_s)
    raise _bad_option(f"`client` is `native` or `aiohttp`, not {name!r}")


def _checked_url(url: str | None) -> str:
    if not url:
        raise _bad_option("`base_url` is missing", "such as http://127.0.0.1:8000/v1")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _bad_option("`base_url` is not an http or https address")
    if parts.username or parts.password or parts.query:
        raise _bad_option(
            "`base_url` contains a user name, a password or a query", "pass the key as `api_key`"
        )
    return url.rstrip("/")


def _bad_option(problem: str, hint: str | None = None) -> InvalidInput:
    return InvalidInput(f"openai: {problem}", hint=hint, code="engine.bad-option")
