"""The texts of a request: all that a model would read of it, to be looked at and rewritten.

A text that were left out would be a way around every guard. So names, arguments of earlier tool
calls, and descriptions and schemas of tools are among them. Pictures, sound and files are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from torvyn.engine.request import Message, Request

TOOLS: Final = "tools"
"""The role of texts that belong to no message: tools, and the format of the answer."""
_FIELDS: Final = frozenset(field.name for field in fields(Request))
_OTHERS: Final = tuple(sorted(_FIELDS & {"tools", "tool_choice", "response_format", "extra"}))
_OF_MESSAGES: Final = frozenset({"role", "type", "id", "tool_call_id", "cache_control"})
_NOT_TEXT: Final = frozenset({"image_url", "video_url", "input_audio", "audio", "file"})
_TYPES: Final = frozenset(
    {"array", "boolean", "function", "integer", "json_object", "json_schema", "null", "number"}
    | {"object", "string", "text"}
)
_KEYWORDS: Final = frozenset(
    {"$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions"}
    | {"description", "enum", "examples", "format", "function", "items", "json_schema", "maxItems"}
    | {"maxLength", "maximum", "minItems", "minLength", "minimum", "name", "oneOf", "parameters"}
    | {"pattern", "properties", "required", "schema", "strict", "title", "type", "uniqueItems"}
)
"""Keys that say nothing: those of JSON Schema, and of the objects around it."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """One text: the role of its message, and which message that is."""

    text: str
    role: str
    message: int | None = None


Visit = Callable[[PromptText], str]


def texts_of(request: Request) -> list[PromptText]:
    """Every text that is not empty, in the order in which a model reads the messages."""
    found: list[PromptText] = []

    def visit(text: PromptText) -> str:
        found.append(text)
        return text.text

    _mapped(request, visit)
    return found


def with_texts(request: Request, texts: Sequence[str]) -> Request:
    """The request with other texts, in the order of `texts_of`."""
    left = iter(texts)
    return _mapped(request, lambda _: next(left))


def _mapped(request: Request, visit: Visit) -> Request:
    changed: dict[str, Any] = {}
    if request.prompt is not None:
        changed["prompt"] = visit(PromptText(request.prompt, "user", 0))
    else:
        messages = enumerate(request.messages)
        changed["messages"] = tuple(_message(message, place, visit) for place, message in messages)
    for name in _OTHERS:
        if isinstance(value := getattr(request, name), (Mapping, list, tuple)):
            # The names of fields that are forwarded are read by the upstream, not by its model.
            free = _Free(lambda text: visit(PromptText(text, TOOLS)), has_keys=name != "extra")
            changed[name] = free.mapped(value)
    return replace(request, **changed)


def _message(message: Message, place: int, visit: Visit) -> Message:
    role = str(message.get("role"))

    def see(text: str) -> str:
        return visit(PromptText(text, role, place))

    return {
        key: value if key in _OF_MESSAGES else _content(key, value, see)
        for key, value in message.items()
    }


def _content(key: str, value: Any, see: Callable[[str], str]) -> Any:
    """A member of a message: its text, its parts, its calls of tools."""
    if isinstance(value, str):
        return _arguments(value, see) if key == "arguments" else see(value) if value else value
    if isinstance(value, Mapping):
        return {
            name: held if name in _OF_MESSAGES | _NOT_TEXT else _content(name, held, see)
            for name, held in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_content(key, held, see) for held in value]
    return value


def _arguments(text: str, see: Callable[[str], str]) -> str:
    """Arguments of a call are JSON, which can spell a word in many ways: its texts are looked at,
    and it is written anew only when one of them has changed."""
    try:
        data = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return see(text) if text else text
    free = _Free(see, is_schema=False)
    made = free.mapped(data)
    return json.dumps(made, ensure_ascii=False) if free.is_changed else text


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, those with the same name too."""


class _Free:
    """JSON of any shape, in which keys and numbers say something too."""

    def __init__(
        self, see: Callable[[str], str], *, is_schema: bool = True, has_keys: bool = True
    ) -> None:
        self._see = see
        self._is_schema = is_schema
        self._has_keys = has_keys
        self.is_changed = False

    def mapped(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, _Pairs):
            return {self._text(key): self.mapped(held) for key, held in value}
        if isinstance(value, Mapping):
            return {self._key(key): self._member(key, held) for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            made = [self.mapped(held) for held in value]
            return tuple(made) if isinstance(value, tuple) else made
        if isinstance(value, bool) or not isinstance(value, (int, float)) or self._is_schema:
            return value
        shown = str(value)
        seen = self._text(shown)
        return value if seen == shown else seen

    def _member(self, key: str, value: Any) -> Any:
        is_type = key == "type" and isinstance(value, str) and value in _TYPES
        return value if is_type else self.mapped(value)

    def _key(self, key: str) -> str:
        return self._text(key) if self._has_keys and key not in _KEYWORDS else key

    def _text(self, text: str) -> str:
        if not text:
            return text
        seen = self._see(text)
        self.is_changed = self.is_changed or seen != text
        return seen
