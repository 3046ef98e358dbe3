"""`engine:scripted`: the scripted engine as the source of a flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torvyn.components.spec import Option, Spec
from torvyn.engine.engine import Engine
from torvyn.engine.nodes.source import EngineSource, spec_of
from torvyn.engine.prompt.prompt_texts import texts_of
from torvyn.engine.request import Request
from torvyn.engine.scripted import ANSWER, Scripted, words
from torvyn.protocol.frames import FINISH_REASONS

SPEC = spec_of(
    "scripted",
    "An engine that says what it is told to: for tests and demonstrations.",
    (
        Option("text", "text", ANSWER, "What it says, cut into words."),
        Option("tokens", "tokens", (), "What it says, token by token, in place of `text`."),
        Option("echo", "boolean", False, "It repeats the last text it was asked, after `text`."),
        Option("delay", "duration", 0.0, "The time between two tokens."),
        Option("first_delay", "duration", 0.0, "The time to the first token."),
        Option("token_bytes", "integer", None, "Cuts tokens of so many bytes.", minimum=1),
        Option("finish_reason", "choice", "stop", "How it ends.", choices=FINISH_REASONS),
        Option("fail_at", "integer", None, "Fails in place of that token.", minimum=0),
    ),
    """\
[flow.main.nodes.model]
component = "engine:scripted"
config = { text = "Hello there. How are you?", delay = "20ms", max_tokens = 100 }
""",
    prompt="Hello",
)


class ScriptedSource(EngineSource):
    spec: ClassVar[Spec] = SPEC

    def open_engine(self, given: Mapping[str, Any]) -> Engine:
        script = given["tokens"] or given["text"]
        return Scripted(
            _repeating(given) if given["echo"] else script,
            delay_s=given["delay"],
            first_delay_s=given["first_delay"],
            token_bytes=given["token_bytes"],
            finish_reason=given["finish_reason"],
            fail_at=given["fail_at"],
        )


def _repeating(given: Mapping[str, Any]) -> Callable[[Request, int], list[str]]:
    """Shows what reached the model: for demonstrations of guards in front of it."""
    before = "" if given["text"] == ANSWER else given["text"]

    def script(request: Request, index: int) -> list[str]:
        return words(before + texts_of(request)[-1].text)

    return script
