"""A body -> what is asked of which flow. Pure.

Three forms: ours (`/v1/streams`), and the two of OpenAI. A field that nobody here knows goes to an
engine that forwards it. For other engines it is a mistake in our form; OpenAI's clients send many,
so there it is ignored and named in a header of the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from torvyn.engine.extra_fields import forwardable
from torvyn.protocol.encoder import Dialect
from torvyn.transport.rejection import Rejection

Json = dict[str, Any]

_SAME: Final = frozenset({"temperature", "top_p", "seed", "stop", "n", "user"})
_OURS: Final = frozenset({"include_stop", "priority"})
_OPTIONS: Final = _SAME | _OURS | {"max_tokens", "tools", "tool_choice", "response_format"}
_LOGPROBS: Final = frozenset({"logprobs", "top_logprobs"})
_SHARED: Final = frozenset({"stream", "stream_options"})
_OWN: Final = _OPTIONS | _LOGPROBS | _SHARED | {"flow", "prompt", "messages", "stateful"}
_KINDS: Final[dict[str, tuple[Any, str]]] = {
    "include_stop": (bool, "true or false"),
    "stateful": (bool, "true or false"),
    "stream": (bool, "true or false"),
    "stream_options": (dict, "an object"),
    "tools": (list, "a list of objects"),
    "tool_choice": ((str, dict), "a text or an object"),
    "response_format": (dict, "an object"),
    "user": (str, "a text"),
    "stop": ((str, list), "a text or a list of texts"),
    "priority": (str, "a text"),
}
"""Those that a request to an engine does not judge by itself."""


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request: for which flow, what, and how the answer should come."""

    dialect: Dialect
    flow: str | None
    input: str | list[Any]
    options: Json
    is_streamed: bool = True
    include_usage: bool = False
    ignored: tuple[str, ...] = field(default=())
    """Fields that mean nothing here; known when the engine is, see `resolve_unknown`."""
    unknown: Json = field(default_factory=dict)
    """Fields that are not ours, until it is known whether the engine forwards them."""
    is_stateful: bool = False
    """The answer is kept, and its reader may come back."""


def parse_torvyn(body: Mapping[str, Any]) -> InferenceRequest:
    """`{"flow"?, "prompt" | "messages", ...options}`"""
    given = _said(body)
    _must_be_bool(given, "logprobs")
    if not given.get("stream", True):
        raise invalid("answers of this route are streams", "`/v1/chat/completions` has whole ones")
    options = {name: given[name] for name in (_OPTIONS | _LOGPROBS) & given.keys()}
    return InferenceRequest(
        "torvyn",
        _text(given, "flow"),
        _either(given),
        options,
        include_usage=True,
        unknown=_without(given, _OWN),
        is_stateful=given.get("stateful", False),
    )


def parse_chat(body: Mapping[str, Any]) -> InferenceRequest:
    given = _said(body)
    known = _OPTIONS | _LOGPROBS | _SHARED | {"model", "messages", "max_completion_tokens"}
    options = {name: given[name] for name in (_OPTIONS | _LOGPROBS) & given.keys()}
    if "max_completion_tokens" in given:
        options["max_tokens"] = given["max_completion_tokens"]
    _must_be_bool(given, "logprobs")
    if "messages" not in given:
        raise invalid("`messages` is missing")
    return _openai("openai-chat", given, _messages(given), options, known)


def parse_completions(body: Mapping[str, Any]) -> InferenceRequest:
    given = _said(body)
    known = _SAME | _OURS | _SHARED | {"model", "prompt", "max_tokens", "logprobs", "echo"}
    options = {name: given[name] for name in (_SAME | _OURS | {"max_tokens"}) & given.keys()}
    if given.get("echo"):
        raise invalid("`echo` is not offered here")
    if (count := given.get("logprobs")) is not None:
        if isinstance(count, bool) or not isinstance(count, int):
            raise invalid("`logprobs` of completions is a number")
        options |= {"logprobs": True, "top_logprobs": count}
    options["raw_prompt"] = True
    return _openai("openai-completions", given, _prompt(given), options, known)


def _openai(
    dialect: Dialect, given: Json, input: str | list[Any], options: Json, known: frozenset[str]
) -> InferenceRequest:
    return InferenceRequest(
        dialect,
        _text(given, "model"),
        input,
        options,
        given.get("stream", False),
        given.get("stream_options", {}).get("include_usage") is True,
        unknown=_without(given, known),
    )


def resolve_unknown(request: InferenceRequest, *, takes_extra: bool) -> InferenceRequest:
    """What is asked of an engine that forwards what it does not know, or of one that does not."""
    if not request.unknown:
        return request
    extra = forwardable(request.unknown) if takes_extra else {}
    rest = sorted(request.unknown.keys() - extra.keys())
    if rest and request.dialect == "torvyn":
        names = ", ".join(f"`{name[:64]}`" for name in rest[:8])
        raise invalid(f"there is no field {names}", f"the fields are {', '.join(sorted(_OWN))}")
    options = {**request.options, "extra": extra} if extra else request.options
    return replace(request, options=options, ignored=tuple(rest), unknown={})


def _without(given: Json, known: frozenset[str]) -> Json:
    return {name: value for name, value in given.items() if name not in known}


def ignored_header(names: tuple[str, ...]) -> dict[str, str]:
    """The header that says which fields meant nothing; names may be anything."""
    if not names:
        return {}
    shown = ["".join(c if c.isascii() and c.isalnum() else "_" for c in n[:64]) for n in names[:16]]
    return {"x-torvyn-ignored": ", ".join(shown)}


def _said(body: Mapping[str, Any]) -> Json:
    """What is null was not said."""
    given = {name: value for name, value in body.items() if value is not None}
    for name, (kinds, words) in _KINDS.items():
        if name in given and not isinstance(given[name], kinds):
            raise invalid(f"`{name}` is {words}")
    if not all(isinstance(tool, dict) for tool in given.get("tools", ())):
        raise invalid("`tools` is a list of objects")
    return given


def _must_be_bool(given: Json, name: str) -> None:
    if not isinstance(given.get(name, False), bool):
        raise invalid(f"`{name}` is true or false")


def _either(given: Json) -> str | list[Any]:
    if ("prompt" in given) == ("messages" in given):
        raise invalid("a request has either `prompt` or `messages`")
    return _prompt(given) if "prompt" in given else _messages(given)


def _messages(given: Json) -> list[Any]:
    messages = given["messages"]
    if not isinstance(messages, list) or not messages:
        raise invalid("`messages` is a list of messages", '[{"role": "user", "content": "Hi"}]')
    return messages


def _prompt(given: Json) -> str:
    prompt = given.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise invalid("`prompt` is one text")
    return prompt


def _text(given: Json, name: str) -> str | None:
    text = given.get(name)
    if text is not None and not isinstance(text, str):
        raise invalid(f"`{name}` is a text")
    return text


def invalid(message: str, hint: str | None = None) -> Rejection:
    return Rejection(400, "transport.request-invalid", message, hint=hint)
