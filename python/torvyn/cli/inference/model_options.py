"""Who is asked, and how: the options that `generate` and `chat` share, and the voice they open.

A voice is an engine by its name, a flow that answers requests through its guards, or a server. What
is wrong with options is the command line's fault here, whatever room finds it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from torvyn.cli.screen import Screen
from torvyn.cli.target import Target, manifest_option, pairs, set_option
from torvyn.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from torvyn.cli.inference.reply import Answerer, Reply

Function = TypeVar("Function", bound=Callable[..., Any])
DEFAULT_ENGINE: Final = "local"
_ASKED: Final = ("max_tokens", "temperature", "top_p", "seed", "stop")


def _engine_names(context: click.Context, param: click.Parameter, typed: str) -> list[str]:
    from torvyn.engine import ENGINES

    return [name for name in ENGINES if name.startswith(typed)]


_VOICE_OPTIONS: Final = (
    click.option(
        "--engine",
        metavar="NAME",
        shell_complete=_engine_names,
        help="local (the default), openai, scripted ..., or `module:Class` of your own.",
    ),
    click.option("--model", metavar="MODEL", help="The engine's model: a GGUF file, or a name."),
    click.option("--base-url", metavar="URL", help="The address of an upstream."),
    click.option(
        "-o",
        "--option",
        "engine_options",
        multiple=True,
        metavar="KEY=VALUE",
        help="Any other option of the engine, such as context=8192. Repeatable.",
    ),
    click.option("--flow", "flow_name", metavar="NAME", help="Ask a flow, through its guards."),
    click.option("--server", metavar="URL", help="Ask a server that `torvyn serve` runs."),
    click.option("--key", metavar="KEY", help="The key for --server; better in TORVYN_KEY."),
    manifest_option,
    click.option(
        "--config",
        "overrides",
        multiple=True,
        metavar="NODE.KEY=VALUE",
        help="Change a node's config, with --flow. Repeatable.",
    ),
    set_option,
)
_REQUEST_OPTIONS: Final = (
    click.option("--system", metavar="TEXT", help="What the model is told before all else."),
    click.option("--max-tokens", type=int, metavar="N", help="Tokens of an answer, at most."),
    click.option("--temperature", type=float, metavar="T", help="How much chance decides: 0 to 2."),
    click.option("--top-p", type=float, metavar="P", help="Choose from this share: 0 to 1."),
    click.option("--seed", type=int, metavar="N", help="The same seed, the same chance."),
    click.option("--stop", multiple=True, metavar="TEXT", help="End there. Repeatable."),
)


def voice_options(function: Function) -> Function:
    """The options that say who answers, and how."""
    for option in reversed((*_VOICE_OPTIONS, *_REQUEST_OPTIONS)):
        function = option(function)
    return function


@dataclass(frozen=True)
class Voice:
    """Who answers. `asked` are the options of every request."""

    name: str
    engine: Answerer
    answer: Callable[..., Reply]
    asked: dict[str, Any]

    def generate(self, messages: str | Sequence[dict[str, str]], **more: Any) -> Reply:
        with blamed_on_the_command():
            return self.answer(messages, **self.asked, **more)


def open_voice(screen: Screen, options: dict[str, Any], *, is_raw: bool = False) -> Voice:
    """Takes what `voice_options` gave out of `options`; loads the model."""
    asked = {name: options.pop(name) for name in _ASKED}
    asked["stop"] = list(asked["stop"]) or None
    asked = {name: value for name, value in asked.items() if value is not None}
    flow, target = options.pop("flow_name"), {}
    for name in ("manifest", "overrides", "settings"):
        target[name] = options.pop(name)
    given = {name: options.pop(name) for name in ("engine", "model", "base_url", "engine_options")}
    server, key = options.pop("server"), options.pop("key")
    if server is not None:
        if any((*given.values(), target["overrides"], target["settings"], is_raw)):
            raise _usage("with `--server` the server says who answers", "`--flow` names its flow")
        return _server_voice(screen, server, key, flow, asked)
    if key is not None:
        raise _usage("`--key` is for a server", "name it: `--server URL`")
    with blamed_on_the_command(), _progress(screen, given):
        if flow is not None:
            return _flow_voice(screen, flow, target, given, is_raw, asked)
        if target["overrides"] or target["settings"]:
            raise _usage("`--config` and `--set` change a flow", "name it: `--flow NAME`")
        return _engine_voice(given, is_raw, asked)


def _flow_voice(
    screen: Screen,
    flow: str,
    target: dict[str, Any],
    given: dict[str, Any],
    is_raw: bool,
    asked: dict[str, Any],
) -> Voice:
    from torvyn.engine import Service

    if any(given.values()) or is_raw:
        raise _usage(
            "with `--flow` the manifest says which engine answers",
            "change it there, or for once: `--config NODE.KEY=VALUE`",
        )
    plan = Target.of(flow=None, flow_name=flow.removeprefix("flow."), **target).link(screen)
    service = Service.open(plan)
    return Voice(service.name, service.engine, service.generate, asked)


def _server_voice(
    screen: Screen, url: str, key: str | None, flow: str | None, asked: dict[str, Any]
) -> Voice:
    from torvyn.cli.inference.remote_model import Remote

    key = key or os.environ.get("TORVYN_KEY")
    screen.secrets = frozenset({key} if key else ())
    with blamed_on_the_command():
        remote = Remote(screen, url, key, flow)
    return Voice(remote.name, remote, remote.generate, asked)


def _engine_voice(given: dict[str, Any], is_raw: bool, asked: dict[str, Any]) -> Voice:
    from torvyn.engine import open as open_engine
    from torvyn.engine.registry import engine_class

    name = given["engine"] or DEFAULT_ENGINE
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    parameters = inspect.signature(engine_class(name)).parameters
    options = {
        key: engine_value(parameters.get(key), value)
        for key, value in pairs(tuple(given["engine_options"]), "--option", "KEY=VALUE").items()
    }
    options |= {key: given[key] for key in ("model", "base_url") if given[key] is not None}
    if is_raw:
        if "api" not in parameters:
            raise _usage(f"the engine `{name}` has no `--raw`", "it takes prompts as they are")
        options["api"] = "completions"
    engine = open_engine(name, **options)
    described = str(engine.describe().get("model") or engine.name)
    return Voice(described, engine, engine.generate, asked)


def engine_value(parameter: inspect.Parameter | None, text: str) -> Any:
    """What `-o key=TEXT` means: numbers, booleans and lists where the engine wants them."""
    wanted = str(parameter.annotation) if parameter is not None else ""
    if not re.search(r"\b(int|float|bool|Sequence|Mapping|list|dict)\b", wanted):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextmanager
def blamed_on_the_command() -> Iterator[None]:
    """A request or an option that cannot be right is a command line that is wrong."""
    try:
        yield
    except InvalidInput as error:
        raise UsageError(error.code, error.message, hint=error.hint) from error


@contextmanager
def _progress(screen: Screen, given: dict[str, Any]) -> Iterator[None]:
    """A line while a model is loaded, for a person who waits at a terminal."""
    is_shown = sys.stderr is not None and sys.stderr.isatty() and not screen.is_quiet
    is_shown = is_shown and os.environ.get("TERM") != "dumb"
    if not is_shown or given["engine"] not in (None, "local", "transformers"):
        yield
        return
    what = os.path.basename(given["model"] or "") or "the model"
    sys.stderr.write(screen.paint(f"loading {what} ...", "dim"))
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def must_be_text(what: str, text: str | None) -> None:
    """A terminal hands on bytes that are no UTF-8 as halves of pairs, which nobody can encode."""
    try:
        (text or "").encode()
    except UnicodeEncodeError:
        raise UsageError("cli.input-unusable", f"{what} is not UTF-8") from None


def _usage(message: str, hint: str) -> UsageError:
    return UsageError("cli.bad-usage", message, hint=hint)
