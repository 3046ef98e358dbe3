"""A request body -> the request to a flow. No I/O.

Three dialects: Torvyn's (`/v1/streams`), and OpenAI's chat and completions. Unknown fields go to an
engine that forwards them. For other engines they are an error in Torvyn's dialect; OpenAI's clients
send many, so there they are ignored and named in a response header.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torvyn.engine.extra_fields import forwardable
from torvyn.protocol.encoder import Dialect
from torvyn.transport.rejection import Rejection

Json = dict[str, Any]

_SHARED: Final = frozenset({"temperature", "top_p", "seed", "stop", "n", "user"})
_EXTENSIONS: Final = frozenset({"include_stop", "priority"})
_OPTIONS: Final = _SHARED | _EXTENSIONS | {"max_tokens", "tools", "tool_choice", "response_format"}
_LOGPROBS: Final = frozenset({"logprobs", "top_logprobs"})
_ALL_OPTIONS: Final = _OPTIONS | _LOGPROBS
_STREAM: Final = frozenset({"stream", "stream_options"})
_TORVYN: Final = _ALL_OPTIONS | _STREAM | {"flow", "prompt", "messages", "stateful"}
_CHAT: Final = _ALL_OPTIONS | _STREAM | {"model", "messages", "max_completion_tokens"}
_TEXT_OPTIONS: Final = _SHARED | _EXTENSIONS | {"max_tokens"}
_COMPLETIONS: Final = _TEXT_OPTIONS | _STREAM | {"model", "prompt", "logprobs", "echo"}
_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "include_stop": (bool, "true or false"),
    "stateful": (bool, "true or false"),
    "stream": (bool, "true or false"),
    "stream_options": (dict, "an object"),
    "tools": (list, "a list of objects"),
    "tool_choice": ((str, dict), "a string or an object"),
    "response_format": (dict, "an object"),
    "user": (str, "a string"),
    "stop": ((str, list), "a string or a list of strings"),
    "priority": (str, "a string"),
}
"""The fields that `engine.Request` does not check itself."""


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request: to which flow, with which input, and the shape of the answer."""

    dialect: Dialect
    flow: str | None
    input: str | list[Any]
    """A prompt or messages."""
    options: Json
    is_streamed: bool = True
    include_usage: bool = False
    ignored: tuple[str, ...] = field(default=())
    """Fields that have no effect; set by `resolve_unknown`."""
    unknown: Json = field(default_factory=dict)
    """Fields of other servers, until `resolve_unknown` knows whether the engine forwards them."""
    is_stateful: bool = False
    """The answer becomes a session."""


def parse_torvyn(body: Mapping[str, Any]) -> InferenceRequest:
    """`{"flow"?, "prompt" | "messages", ...options}`"""
    fields = _fields(body)
    _require_bool(fields, "logprobs")
    if not fields.get("stream", True):
        hint = "`/v1/chat/completions` sends whole answers"
        raise invalid("this route only streams answers", hint)
    if ("prompt" in fields) == ("messages" in fields):
        raise invalid("a request must have either `prompt` or `messages`")
    return InferenceRequest(
        "torvyn",
        _string(fields, "flow"),
        _prompt(fields) if "prompt" in fields else _messages(fields),
        {name: fields[name] for name in _ALL_OPTIONS & fields.keys()},
        include_usage=True,
        unknown=_without(fields, _TORVYN),
        is_stateful=fields.get("stateful", False),
    )


def parse_chat(body: Mapping[str, Any]) -> InferenceRequest:
    fields = _fields(body)
    options = {name: fields[name] for name in _ALL_OPTIONS & fields.keys()}
    if "max_completion_tokens" in fields:
        options["max_tokens"] = fields["max_completion_tokens"]
    _require_bool(fields, "logprobs")
    if "messages" not in fields:
        raise invalid("`messages` is missing")
    return _openai("openai-chat", fields, _messages(fields), options, _CHAT)


def parse_completions(body: Mapping[str, Any]) -> InferenceRequest:
    fields = _fields(body)
    options = {name: fields[name] for name in _TEXT_OPTIONS & fields.keys()}
    if fields.get("echo"):
        raise invalid("`echo` is not supported")
    if (count := fields.get("logprobs")) is not None:
        if isinstance(count, bool) or not isinstance(count, int):
            raise invalid("`logprobs` of completions must be a number")
        options |= {"logprobs": True, "top_logprobs": count}
    options["raw_prompt"] = True
    return _openai("openai-completions", fields, _prompt(fields), options, _COMPLETIONS)


def _openai(
    dialect: Dialect, fields: Json, input: str | list[Any], options: Json, known: frozenset[str]
) -> InferenceRequest:
    return InferenceRequest(
        dialect,
        _string(fields, "model"),
        input,
        options,
        fields.get("stream", False),
        fields.get("stream_options", {}).get("include_usage") is True,
        unknown=_without(fields, known),
    )


def resolve_unknown(request: InferenceRequest, *, takes_extra: bool) -> InferenceRequest:
    """Moves unknown fields to the options of an engine that forwards them, or to `ignored`."""
    if not request.unknown:
        return request
    extra = forwardable(request.unknown) if takes_extra else {}
    rest = sorted(request.unknown.keys() - extra.keys())
    if rest and request.dialect == "torvyn":
        names = ", ".join(f"`{name[:64]}`" for name in rest[:8])
        raise invalid(f"unknown field {names}", f"the fields are {', '.join(sorted(_TORVYN))}")
    options = {**request.options, "extra": extra} if extra else request.options
    return replace(request, options=options, ignored=tuple(rest), unknown={})


def _without(fields: Json, known: frozenset[str]) -> Json:
    return {name: value for name, value in fields.items() if name not in known}


def ignored_header(names: tuple[str, ...]) -> dict[str, str]:
    """The header that names ignored fields; their names may contain any character."""
    if not names:
        return {}
    safe = ["".join(c if c.isascii() and c.isalnum() else "_" for c in n[:64]) for n in names[:16]]
    return {"x-torvyn-ignored": ", ".join(safe)}


def _fields(body: Mapping[str, Any]) -> Json:
    """The fields that are not null, with their types checked."""
    fields = {name: value for name, value in body.items() if value is not None}
    for name, value in fields.items():
        if (known := _TYPES.get(name)) is not None and not isinstance(value, known[0]):
            raise invalid(f"`{name}` must be {known[1]}")
    if not all(isinstance(tool, dict) for tool in fields.get("tools", ())):
        raise invalid("`tools` must be a list of objects")
    return fields


def _require_bool(fields: Json, name: str) -> None:
    if not isinstance(fields.get(name, False), bool):
        raise invalid(f"`{name}` must be true or false")


def _messages(fields: Json) -> list[Any]:
    messages = fields["messages"]
    if not isinstance(messages, list) or not messages:
        hint = 'for example [{"role": "user", "content": "Hi"}]'
        raise invalid("`messages` must be a list of messages", hint)
    return messages


def _prompt(fields: Json) -> str:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise invalid("`prompt` must be a string")
    return prompt


def _string(fields: Json, name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(f"`{name}` must be a string")
    return value


def invalid(message: str, hint: str | None = None) -> Rejection:
    return Rejection(400, "transport.request-invalid", message, hint=hint)
