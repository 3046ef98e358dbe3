"""What `generate` and `chat` talk to: an engine, a flow with its guards, or a server.

Invalid options are usage errors, whichever package finds them. The streams of a server have the
shape of generations. They are stateful, so that they survive a lost connection, unless the server
refuses that.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import click

from torvyn._cli.screen import Screen
from torvyn._cli.target import Target, manifest_option, pairs, set_option
from torvyn.client import AsyncClient, AsyncStream
from torvyn.engine import Delta
from torvyn.errors import InvalidInput, TorvynError, UsageError
from torvyn.protocol import DeltaFrame, EndFrame, FilterSide, FinishReason, Frame, Usage


class RequestLimits(Protocol):
    @property
    def n(self) -> int: ...
    @property
    def max_tokens(self) -> int | None: ...


class AnyGeneration(Protocol):
    """A generation in this process, or a server's stream in the same shape."""

    @property
    def request(self) -> RequestLimits: ...
    @property
    def request_id(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]: ...
    @property
    def filtered_side(self) -> FilterSide | None: ...
    @property
    def timing(self) -> dict[str, float]: ...
    def __aiter__(self) -> AsyncGenerator[Delta, None]: ...
    def close(self) -> None:
        """Ends the answer with `cancelled`. Signal handlers may call it."""
        ...


class AsyncCloseable(Protocol):
    async def aclose(self) -> None: ...


Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_ENGINE: Final = "local"
_REQUEST_FIELDS: Final = ("max_tokens", "temperature", "top_p", "seed", "stop")


def _engine_names(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    from torvyn.engine import ENGINES

    return [name for name in ENGINES if name.startswith(typed)]


_MODEL_OPTIONS: Final = (
    click.option(
        "--engine",
        metavar="NAME",
        shell_complete=_engine_names,
        help="local (the default), openai, scripted ..., or your own as `module:Class`.",
    ),
    click.option("--model", metavar="MODEL", help="The model: a GGUF file or a model name."),
    click.option("--base-url", metavar="URL", help="The URL of the upstream server."),
    click.option(
        "-o",
        "--option",
        "engine_options",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other option of the engine, such as context=8192. Repeatable.",
    ),
    click.option("--flow", "flow_name", metavar="NAME", help="Send the request through this flow."),
    click.option("--server", metavar="URL", help="Send the request to this Torvyn server."),
    click.option(
        "--key", metavar="KEY", help="The API key for --server. Prefer the variable TORVYN_KEY."
    ),
    manifest_option,
    click.option(
        "--config",
        "overrides",
        multiple=True,
        metavar="NODE.KEY=VALUE",
        help="Override an option of a node, with --flow. Repeatable.",
    ),
    set_option,
)
_REQUEST_OPTIONS: Final = (
    click.option("--system", metavar="TEXT", help="The system message."),
    click.option("--max-tokens", type=int, metavar="N", help="Maximum tokens per answer."),
    click.option("--temperature", type=float, metavar="T", help="Sampling temperature, 0 to 2."),
    click.option("--top-p", type=float, metavar="P", help="Nucleus sampling, 0 to 1."),
    click.option("--seed", type=int, metavar="N", help="Seed for sampling."),
    click.option(
        "--stop", multiple=True, metavar="TEXT", help="End the answer before TEXT. Repeatable."
    ),
)


def model_options(function: Function) -> Function:
    """Adds the options that choose the model and describe the request."""
    for option in reversed((*_MODEL_OPTIONS, *_REQUEST_OPTIONS)):
        function = option(function)
    return function


@dataclass(frozen=True)
class Model:
    """An engine, a flow or a server. `request` holds the options of every request."""

    name: str
    engine: AsyncCloseable
    start: Callable[..., AnyGeneration]
    request: dict[str, Any]

    def generate(self, messages: str | Sequence[dict[str, str]], **more: Any) -> AnyGeneration:
        with as_usage_errors():
            return self.start(messages, **self.request, **more)


def open_model(screen: Screen, options: dict[str, Any], *, is_raw: bool = False) -> Model:
    """Removes the options of `model_options` from `options`, and loads the model."""
    request = {name: options.pop(name) for name in _REQUEST_FIELDS}
    request["stop"] = list(request["stop"]) or None
    request = {name: value for name, value in request.items() if value is not None}
    flow, target = options.pop("flow_name"), {}
    for name in ("manifest", "overrides", "settings"):
        target[name] = options.pop(name)
    engine_args = {
        name: options.pop(name) for name in ("engine", "model", "base_url", "engine_options")
    }
    server, key = options.pop("server"), options.pop("key")
    if server is not None:
        if any((*engine_args.values(), target["overrides"], target["settings"], is_raw)):
            message = "with `--server`, the server chooses the engine and its options"
            raise _usage(message, "choose one of its flows with `--flow`")
        return _server_model(screen, server, key, flow, request)
    if key is not None:
        raise _usage("`--key` needs `--server`", "add `--server URL`")
    with as_usage_errors(), _progress(screen, engine_args):
        if flow is not None:
            return _flow_model(screen, flow, target, engine_args, is_raw, request)
        if target["overrides"] or target["settings"]:
            raise _usage("`--config` and `--set` need `--flow`", "add `--flow NAME`")
        return _engine_model(engine_args, is_raw, request)


def _flow_model(
    screen: Screen,
    flow: str,
    target: dict[str, Any],
    engine_args: dict[str, Any],
    is_raw: bool,
    request: dict[str, Any],
) -> Model:
    from torvyn.engine import Service

    if any(engine_args.values()) or is_raw:
        raise _usage(
            "with `--flow`, the manifest chooses the engine and its options",
            "change the manifest, or override an option with `--config NODE.KEY=VALUE`",
        )
    plan = Target.of(flow_name=flow.removeprefix("flow."), **target).link(screen)
    service = Service.open(plan)
    return Model(service.name, service.engine, service.generate, request)


def _server_model(
    screen: Screen, url: str, key: str | None, flow: str | None, request: dict[str, Any]
) -> Model:
    pass

    key = key or os.environ.get("TORVYN_KEY")
    screen.secrets = frozenset({key} if key else ())
    with as_usage_errors():
        remote = RemoteModel(screen, url, key, flow)
    return Model(remote.name, remote, remote.generate, request)


def _engine_model(engine_args: dict[str, Any], is_raw: bool, request: dict[str, Any]) -> Model:
    from torvyn.engine import open as open_engine
    from torvyn.engine.registry import engine_class

    name = engine_args["engine"] or DEFAULT_ENGINE
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    parameters = inspect.signature(engine_class(name)).parameters
    options = {
        key: parse_engine_option(parameters.get(key), value)
        for key, value in pairs(
            tuple(engine_args["engine_options"]), "--option", "KEY=VALUE"
        ).items()
    }
    options |= {
        key: engine_args[key] for key in ("model", "base_url") if engine_args[key] is not None
    }
    if is_raw:
        if "api" not in parameters:
            message = f"the engine `{name}` has no `--raw`: it never uses a chat template"
            raise _usage(message, "leave out `--raw`")
        options["api"] = "completions"
    engine = open_engine(name, **options)
    described = str(engine.describe().get("model") or engine.name)
    return Model(described, engine, engine.generate, request)


def parse_engine_option(parameter: inspect.Parameter | None, text: str) -> Any:
    """The value of `-o key=TEXT`: JSON if the engine's parameter is not a string."""
    annotation = str(parameter.annotation) if parameter is not None else ""
    if not re.search(r"\b(int|float|bool|Sequence|Mapping|list|dict)\b", annotation):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def as_usage_errors() -> Iterator[None]:
    """Turns invalid options and requests into usage errors."""
    try:
        yield
    except InvalidInput as error:
        raise UsageError(error.code, error.message, hint=error.hint) from error


@contextmanager
def _progress(screen: Screen, engine_args: dict[str, Any]) -> Iterator[None]:
    """Shows a line on a terminal while a model is loaded."""
    is_shown = sys.stderr is not None and sys.stderr.isatty() and not screen.is_quiet
    is_shown = is_shown and os.environ.get("TERM") != "dumb"
    if not is_shown or engine_args["engine"] not in (None, "local", "transformers"):
        yield
        return
    what = os.path.basename(engine_args["model"] or "") or "the model"
    sys.stderr.write(screen.paint(f"loading {what} ...", "dim"))
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def require_utf8(what: str, text: str | None) -> None:
    """Python turns arguments that are not UTF-8 into surrogates, which cannot be encoded."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise UsageError("cli.input-unusable", f"{what} is not UTF-8") from None


def _usage(message: str, hint: str) -> UsageError:
    return UsageError("cli.bad-usage", message, hint=hint)


_KEY_CODES: Final = ("transport.key-missing", "transport.key-wrong")
_KEY_HINT: Final = (
    "set TORVYN_KEY to the key that the server's operator gave you, or use `--key KEY`"
)
_STATEFUL_REFUSED: Final = "transport.stateful-refused"
_CANCEL_TIMEOUT_S: Final = 2.0
"""How long to wait for the end frame of a cancelled answer."""


class RemoteModel:
    """A server, and which of its flows answers."""

    def __init__(self, screen: Screen, url: str, key: str | None, flow: str | None) -> None:
        self._screen = screen
        self._flow = flow
        self._client = AsyncClient(url, key=key, on_reconnect=self._reconnecting)
        self._is_stateful = True
        self.name = flow or urlsplit(self._client.url).netloc

    def generate(self, prompt: str | Sequence[dict[str, str]], **options: Any) -> RemoteGeneration:
        def start() -> AsyncStream:
            stateful = self._is_stateful
            return self._client.stream(prompt, flow=self._flow, stateful=stateful, **options)

        limits = RemoteLimits(options.get("n") or 1, options.get("max_tokens"))
        return RemoteGeneration(start, limits, self._use_stateless)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _use_stateless(self) -> None:
        if self._is_stateful:
            self._is_stateful = False
            self._screen.info(
                "[torvyn] The server runs several workers: an answer is not continued after a lost "
                "connection."
            )

    def _reconnecting(self, tries: int, why: TorvynError) -> None:
        if tries > 1:
            return
        if sys.stderr is not None and sys.stderr.isatty():
            # The answer may be in the middle of a line.
            self._screen.stream_dim("[reconnecting...]")
        else:
            self._screen.info(f"[torvyn] reconnecting... ({why.message})")


@dataclass(frozen=True)
class RemoteLimits:
    n: int
    max_tokens: int | None


class RemoteGeneration:
    """One answer of a server."""

    def __init__(
        self,
        start: Callable[[], AsyncStream],
        request: RemoteLimits,
        on_stateful_refused: Callable[[], None],
    ) -> None:
        """`start` is called again after `on_stateful_refused`, for a stream without state."""
        self.request = request
        self._start = start
        self._stream = start()
        self._on_stateful_refused = on_stateful_refused
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()
        self._cancellation: asyncio.Task[None] | None = None

    @property
    def request_id(self) -> str:
        return self._stream.id or ""

    @property
    def usage(self) -> Usage:
        return self._stream.usage

    @property
    def finish_reasons(self) -> tuple[FinishReason | None, ...]:
        reasons = self._stream.finish_reasons
        if self._cancellation is None:
            return reasons
        return tuple(reason or "cancelled" for reason in reasons)

    @property
    def filtered_side(self) -> FilterSide | None:
        return self._stream.filtered_side

    @property
    def timing(self) -> dict[str, float]:
        return self._stream.timing

    async def __aiter__(self) -> AsyncGenerator[Delta, None]:
        self._loop = asyncio.get_running_loop()
        try:
            async with contextlib.aclosing(self._frames()) as frames:
                async for frame in frames:
                    for delta in _deltas(frame):
                        yield delta
            if self._cancellation is None:
                self._stream.raise_error()
        except TorvynError as error:
            raise _with_command_hint(error) from error.__cause__
        finally:
            self._ended.set()
            if self._cancellation is not None:
                await self._cancellation

    async def _frames(self) -> AsyncGenerator[Frame, None]:
        try:
            async with contextlib.aclosing(aiter(self._stream)) as frames:
                async for frame in frames:
                    yield frame
            return
        except TorvynError as error:
            if error.code != _STATEFUL_REFUSED:
                raise
        self._on_stateful_refused()
        self._stream = self._start()
        async with contextlib.aclosing(aiter(self._stream)) as frames:
            async for frame in frames:
                yield frame

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        if self._cancellation is None:
            self._cancellation = asyncio.ensure_future(self._cancel())
        else:
            # The second call does not wait for the server.
            self._cancellation.cancel()

    async def _cancel(self) -> None:
        """Cancels the stream and waits for its end frame, which holds the usage."""
        with contextlib.suppress(TorvynError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                if await self._stream.cancel():
                    await self._ended.wait()
        await self._stream.aclose()


def _with_command_hint(error: TorvynError) -> TorvynError:
    """The server's hint names an HTTP header; a command passes the key in other ways."""
    if error.code in _KEY_CODES:
        error.diagnostics = tuple(replace(each, hint=_KEY_HINT) for each in error.diagnostics)
    return error


def _deltas(frame: Frame) -> Iterator[Delta]:
    """The frame as an engine's deltas: an end frame is one finish per choice."""
    if isinstance(frame, DeltaFrame):
        yield Delta(frame.index, frame.text, frame.kind, frame.call, frame.logprobs)
    elif isinstance(frame, EndFrame):
        for finish in frame.finish:
            yield Delta(finish.index, finish_reason=finish.reason, matched_stop=finish.matched_stop)
