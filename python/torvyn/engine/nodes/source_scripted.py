"""`engine:scripted`: the scripted engine as the source of a flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torvyn.components.builtin.source_scripted import words
from torvyn.components.spec import Option, Spec
from torvyn.engine.engine import Engine
from torvyn.engine.nodes.source import EngineSource, spec_of
from torvyn.engine.prompt.prompt_texts import texts_of
from torvyn.engine.request import Request
from torvyn.engine.scripted import ANSWER, OTHER_NAMES, Scripted
from torvyn.protocol.frames import FINISH_REASONS

SPEC = spec_of(
    "scripted",
    "An engine with scripted answers, for tests and demonstrations.",
    (
        Option("text", "text", ANSWER, "The answer; each word is a token."),
        Option("tokens", "tokens", (), "The answer as a list of tokens, instead of `text`."),
        Option("echo", "boolean", False, "Whether it repeats the prompt after `text`."),
        Option("delay", "duration", 0.0, "The time between two tokens."),
        Option("first_delay", "duration", 0.0, "The time to the first token."),
        Option("token_bytes", "integer", None, "The size of a token in bytes.", minimum=1),
        Option("finish_reason", "choice", "stop", "The finish reason.", choices=FINISH_REASONS),
        Option("fail_at", "integer", None, "The number of the token at which it fails.", minimum=0),
    ),
    """\
[flow.main.nodes.model]
component = "engine:scripted"
config = { text = "Hello there. How are you?", delay = "20ms", max_tokens = 100 }
""",
    prompt="Hello",
    other_names=OTHER_NAMES,
)


class ScriptedSource(EngineSource):
    spec: ClassVar[Spec] = SPEC

    def open_engine(self, options: Mapping[str, Any]) -> Engine:
        script = options["tokens"] or options["text"]
        return Scripted(
            _echo(options) if options["echo"] else script,
            delay=options["delay"],
            first_delay=options["first_delay"],
            token_bytes=options["token_bytes"],
            finish_reason=options["finish_reason"],
            fail_at=options["fail_at"],
        )


def _echo(options: Mapping[str, Any]) -> Callable[[Request, int], tuple[str, ...]]:
    """A script that repeats the last text of the request, as the guards before it left it."""
    before = "" if options["text"] == ANSWER else options["text"]

    def script(request: Request, index: int) -> tuple[str, ...]:
        return words(before + texts_of(request)[-1].text)

    return script
