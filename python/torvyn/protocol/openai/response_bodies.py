"""Whole answers in OpenAI's dialects, for clients that do not stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torvyn.protocol.encoder import columns
from torvyn.protocol.frames import FilterSide, FinishReason, StartFrame, ToolCall, Usage


class ChoiceLike(Protocol):
    """One choice of a whole answer."""

    @property
    def index(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def reasoning(self) -> str: ...
    @property
    def finish_reason(self) -> FinishReason: ...
    @property
    def tool_calls(self) -> Sequence[ToolCall]: ...
    @property
    def logprobs(self) -> Sequence[Mapping[str, Any]] | None: ...
    @property
    def matched_stop(self) -> str | None: ...
    @property
    def side(self) -> FilterSide | None: ...


def chat_body(start: StartFrame, answers: Sequence[ChoiceLike], usage: Usage) -> dict[str, Any]:
    """A `chat.completion`."""
    choices = [
        _choice(answer, {"message": _message(answer)}, _content(answer.logprobs))
        for answer in answers
    ]
    return _body("chat.completion", start, choices, usage)


def completion_body(
    start: StartFrame, answers: Sequence[ChoiceLike], usage: Usage
) -> dict[str, Any]:
    """A `text_completion`."""
    choices = []
    for answer in answers:
        text: dict[str, Any] = {"text": answer.text}
        if answer.reasoning:
            text["reasoning_content"] = answer.reasoning
        logprobs = None if answer.logprobs is None else columns(answer.logprobs)
        choices.append(_choice(answer, text, logprobs))
    return _body("text_completion", start, choices, usage)


def error_body(code: str, message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    """The body of an error response."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _body(
    kind: str, start: StartFrame, choices: list[dict[str, Any]], usage: Usage
) -> dict[str, Any]:
    return {
        "id": start.id,
        "object": kind,
        "created": start.created,
        "model": start.flow,
        "choices": choices,
        "usage": usage_record(usage),
    }


def usage_record(usage: Usage) -> dict[str, Any]:
    """The usage in OpenAI's form."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _choice(answer: ChoiceLike, content: dict[str, Any], logprobs: Any) -> dict[str, Any]:
    choice = {"index": answer.index, **content, "logprobs": logprobs}
    choice["finish_reason"] = answer.finish_reason
    if answer.matched_stop is not None:
        choice["stop_reason"] = answer.matched_stop
    if answer.side is not None:
        choice["content_filter"] = {"side": answer.side}
    return choice


def _message(answer: ChoiceLike) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["content"] = answer.text or None
        message["tool_calls"] = [_call(call) for call in answer.tool_calls]
    return message


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _content(logprobs: Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    return None if logprobs is None else {"content": [dict(entry) for entry in logprobs]}
