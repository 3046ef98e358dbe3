"""Messages of gRPC clients -> the bodies that other transports send as JSON. Pure.

So that there is one judge of what may be asked: `asked`.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from torvyn.transport.http.exchange import json_value
from torvyn.transport.rejection import Rejection, bad_message
from torvyn.transport.request_body import invalid

Json = dict[str, Any]

_AS_THEY_ARE: Final = (
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
_STEERING: Final = ("id", "after", "credit", "frames", "max_tokens")
_OPTIONAL: Final = ("after", "credit", "max_tokens")


def read(kind: Any, data: bytes) -> Any:
    """The message of that kind, all of whose fields are known here."""
    try:
        message = kind.FromString(data)
    except DecodeError:
        raise bad_message(kind.DESCRIPTOR.full_name) from None
    _must_be_known(message)
    return message


def body_of(request: Any) -> Json:
    """The body of `POST /v1/streams` that a `GenerateRequest` is."""
    body = _said(request, _AS_THEY_ARE)
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
    """The record that a `ClientMessage` is, as a WebSocket carries it."""
    kind = message.WhichOneof("message")
    record: Json = {"type": kind, "stream_id": message.stream_id or None}
    if kind is None:
        return record
    said = getattr(message, kind)
    if kind == "start":
        return body_of(said.request) | _said(said, ("credit",)) | record
    if kind == "update" and said.stop:
        record["stop"] = list(said.stop)
    names = tuple(name for name in _STEERING if name in said.DESCRIPTOR.fields_by_name)
    given = {name: getattr(said, name) for name in names if name not in _OPTIONAL}
    return record | given | _said(said, tuple(name for name in names if name in _OPTIONAL))


def _message(message: Any) -> Json:
    """As chat models know them. What a message leaves out is left out here too."""
    given: Json = {"role": message.role} | _said(message, ("content", "name", "tool_call_id"))
    if message.HasField("content_json"):
        given["content"] = _json("content_json", message.content_json, list, "list")
    if message.tool_calls:
        given["tool_calls"] = [
            {"id": call.id} | _function({"name": call.name, "arguments": call.arguments})
            for call in message.tool_calls
        ]
    return given


def _tool(tool: Any) -> Json:
    function = {"name": tool.name} | _said(tool, ("description", "strict"))
    if tool.HasField("parameters_json"):
        text = tool.parameters_json
        function["parameters"] = _json("parameters_json", text, dict, "object")
    return _function(function)


def _function(function: Json) -> Json:
    return {"type": "function", "function": function}


def _json(name: str, text: str, kind: type, words: str) -> Any:
    try:
        found = json_value(text.encode(), f"text of `{name}`")
    except Rejection as rejection:
        raise invalid(rejection.message) from None
    if not isinstance(found, kind):
        raise invalid(f"`{name}` is a JSON {words}")
    return found


def _said(message: Any, names: tuple[str, ...]) -> Json:
    return {name: getattr(message, name) for name in names if message.HasField(name)}


def _must_be_known(message: Any) -> None:
    """An option that is passed over in silence would be worse than a rejection."""
    if numbers := [str(field.field_number) for field in UnknownFieldSet(message)]:
        name = message.DESCRIPTOR.full_name
        raise invalid(f"this server knows no field {', '.join(numbers[:8])} of {name}")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in value if hasattr(value, "append") else (value,):
                _must_be_known(part)
