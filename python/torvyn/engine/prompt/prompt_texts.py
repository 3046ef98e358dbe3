"""The texts of a request: everything that the model would read, for guards to check and rewrite.

A missing text would be a way around every guard. So names, arguments of earlier tool calls, and
descriptions and schemas of tools are included. Images, audio and files are not.
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
"""Keys that are not text: those of JSON Schema and of the objects around it."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """One text, the role of its message, and the index of the message."""

    text: str
    role: str
    message: int | None = None


Visit = Callable[[PromptText], str]


def texts_of(request: Request) -> list[PromptText]:
    """Every text that is not empty, in the order in which a model reads the messages."""
    texts: list[PromptText] = []

    def visit(text: PromptText) -> str:
        texts.append(text)
        return text.text

    _mapped(request, visit)
    return texts


def with_texts(request: Request, texts: Sequence[str]) -> Request:
    """The request with other texts, in the order of `texts_of`."""
    remaining = iter(texts)
    return _mapped(request, lambda _: next(remaining))


def _mapped(request: Request, visit: Visit) -> Request:
    changed: dict[str, Any] = {}
    if request.prompt is not None:
        changed["prompt"] = visit(PromptText(request.prompt, "user", 0))
    else:
        messages = enumerate(request.messages)
        changed["messages"] = tuple(_message(message, place, visit) for place, message in messages)
    for name in _OTHERS:
        if isinstance(value := getattr(request, name), (Mapping, list, tuple)):
            # The upstream reads the names of forwarded fields; its model does not.
            mapper = _JsonMapper(
                lambda text: visit(PromptText(text, TOOLS)), has_keys=name != "extra"
            )
            changed[name] = mapper.mapped(value)
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
    """A field of a message: its text, its parts or its tool calls."""
    if isinstance(value, str):
        return _arguments(value, see) if key == "arguments" else see(value) if value else value
    if isinstance(value, Mapping):
        return {
            name: item if name in _OF_MESSAGES | _NOT_TEXT else _content(name, item, see)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_content(key, item, see) for item in value]
    return value


def _arguments(text: str, see: Callable[[str], str]) -> str:
    """The arguments of a tool call. JSON can escape a word in many ways, so the decoded texts are
    visited; the JSON is encoded again only if one of them changed."""
    try:
        data = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return see(text) if text else text
    mapper = _JsonMapper(see, is_schema=False)
    result = mapper.mapped(data)
    return json.dumps(result, ensure_ascii=False) if mapper.is_changed else text


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object, including those with the same name."""


class _JsonMapper:
    """Visits the texts of any JSON, including keys and numbers."""

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
            return {self._text(key): self.mapped(item) for key, item in value}
        if isinstance(value, Mapping):
            return {self._key(key): self._member(key, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.mapped(item) for item in value]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, bool) or not isinstance(value, (int, float)) or self._is_schema:
            return value
        text = str(value)
        result = self._text(text)
        return value if result == text else result

    def _member(self, key: str, value: Any) -> Any:
        is_type = key == "type" and isinstance(value, str) and value in _TYPES
        return value if is_type else self.mapped(value)

    def _key(self, key: str) -> str:
        return self._text(key) if self._has_keys and key not in _KEYWORDS else key

    def _text(self, text: str) -> str:
        if not text:
            return text
        result = self._see(text)
        self.is_changed = self.is_changed or result != text
        return result
