"""Messages of gRPC clients -> the bodies that other transports receive as JSON. No I/O.

So that only `request_body` decides what a request may contain.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from torvyn.transport.http.json_body import parse_json
from torvyn.transport.rejection import Rejection, bad_message
from torvyn.transport.request_body import invalid

Json = dict[str, Any]

_COPIED: Final = (
    "flow",
    "prompt",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "include_stop",
    "n",
    "logprobs",
    "top_logprobs",
    "user",
    "priority",
    "stateful",
    "tool_choice",
)
_CONTROL: Final = ("id", "after", "credit", "frames", "max_tokens")
_OPTIONAL: Final = ("after", "credit", "max_tokens")


def parse(kind: Any, data: bytes) -> Any:
    """The message of that kind, without unknown fields. Raises a rejection."""
    message = decode(kind, data)
    _reject_unknown(message)
    return message


def decode(kind: Any, data: bytes) -> Any:
    """The message of that kind. Raises a rejection."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise bad_message(kind.DESCRIPTOR.full_name) from None


def body_of(request: Any) -> Json:
    """A `GenerateRequest` as a body of `POST /v1/streams`."""
    body = _fields(request, _COPIED)
    if request.messages:
        body["messages"] = [_message(message) for message in request.messages]
    if request.stop:
        body["stop"] = list(request.stop)
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.HasField("tool_choice_function"):
        body["tool_choice"] = _function({"name": request.tool_choice_function})
    if request.HasField("response_format_json"):
        text = request.response_format_json
        body["response_format"] = _json("response_format_json", text, dict, "object")
    return body


def record_of(message: Any) -> Json:
    """A `ClientMessage` as the record that a WebSocket carries."""
    kind = message.WhichOneof("message")
    record: Json = {"type": kind, "stream_id": message.stream_id or None}
    if kind is None:
        return record
    content = getattr(message, kind)
    if kind == "start":
        return body_of(content.request) | _fields(content, ("credit",)) | record
    if kind == "update" and content.stop:
        record["stop"] = list(content.stop)
    names = tuple(name for name in _CONTROL if name in content.DESCRIPTOR.fields_by_name)
    required = {name: getattr(content, name) for name in names if name not in _OPTIONAL}
    return record | required | _fields(content, tuple(n for n in names if n in _OPTIONAL))


def _message(message: Any) -> Json:
    """In the shape of OpenAI's chat messages; unset fields are left out."""
    record: Json = {"role": message.role} | _fields(message, ("content", "name", "tool_call_id"))
    if message.HasField("content_json"):
        record["content"] = _json("content_json", message.content_json, list, "list")
    if message.tool_calls:
        record["tool_calls"] = [
            {"id": call.id} | _function({"name": call.name, "arguments": call.arguments})
            for call in message.tool_calls
        ]
    return record


def _tool(tool: Any) -> Json:
    function = {"name": tool.name} | _fields(tool, ("description", "strict"))
    if tool.HasField("parameters_json"):
        text = tool.parameters_json
        function["parameters"] = _json("parameters_json", text, dict, "object")
    return _function(function)


def _function(function: Json) -> Json:
    return {"type": "function", "function": function}


def _json(name: str, text: str, kind: type, words: str) -> Any:
    try:
        value = parse_json(text.encode(), f"text of `{name}`")
    except Rejection as rejection:
        raise invalid(rejection.message) from None
    if not isinstance(value, kind):
        raise invalid(f"`{name}` must be a JSON {words}")
    return value


def _fields(message: Any, names: tuple[str, ...]) -> Json:
    return {name: getattr(message, name) for name in names if message.HasField(name)}


def _reject_unknown(message: Any) -> None:
    """Ignoring an option silently would be worse than a rejection."""
    if numbers := [str(field.field_number) for field in UnknownFieldSet(message)]:
        name = message.DESCRIPTOR.full_name
        raise invalid(f"this server does not know field {', '.join(numbers[:8])} of {name}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if hasattr(value, "append") else (value,):
                _reject_unknown(part)
