"""Records as messages of gRPC, and the server's messages as what is said. Pure.

A field that a message does not have is a mistake here already: it could not be sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from torvyn.client import failures
from torvyn.client.transports.channel import Said
from torvyn.protocol.proto_decoder import frame_from_message
from torvyn.v1 import inference_pb2 as pb

_OWN: Final = frozenset({"type", "stream_id", "credit"})


def said_of(message: Any, secret: str | None) -> Said:
    kind = message.WhichOneof("message")
    stream_id = message.stream_id or None
    if kind == "pong":
        return Said("pong")
    if kind == "refused":
        said = message.refused
        record = {name: getattr(said, name) for name in ("code", "message", "retryable")}
        if said.HasField("hint"):
            record["hint"] = said.hint
        return Said("refused", stream_id, refusal=failures.refused_by(record, secret))
    if kind != "frame":
        return Said("other")
    frame = frame_from_message(message.frame)
    if frame is None:
        return Said("other")
    return Said("frame", stream_id, frame, message.frame.start.epoch or None)


def message_of(record: Mapping[str, Any]) -> Any:
    """A `ClientMessage`."""
    kind = record["type"]
    message = pb.ClientMessage(stream_id=record.get("stream_id", ""))
    said = getattr(message, kind)
    said.SetInParent()
    if kind == "start":
        said.credit = record["credit"]
        _ask(said.request, {name: value for name, value in record.items() if name not in _OWN})
        return message
    for name, value in record.items():
        if name == "stop":
            said.stop.extend(value)
        elif name not in ("type", "stream_id"):
            _put(said, name, value)
    return message


def _ask(request: Any, body: dict[str, Any]) -> None:
    for name, value in body.items():
        match name:
            case "messages":
                request.messages.extend(_message(one) for one in value)
            case "stop":
                request.stop.extend([value] if isinstance(value, str) else value)
            case "tools":
                request.tools.extend(_tool(one) for one in value)
            case "tool_choice" if not isinstance(value, str):
                request.tool_choice_function = _function(value, "tool_choice")["name"]
            case "response_format":
                request.response_format_json = json.dumps(value)
            case _:
                _put(request, name, value)


def _message(given: Mapping[str, Any]) -> Any:
    message = pb.Message()
    for name, value in given.items():
        if value is None:
            continue
        if name == "content" and not isinstance(value, str):
            message.content_json = json.dumps(value)
        elif name == "tool_calls":
            message.tool_calls.extend(_call(one) for one in value)
        else:
            _put(message, name, value)
    return message


def _call(given: Mapping[str, Any]) -> Any:
    function = _function(given, "tool_calls")
    call = pb.ToolCall()
    _put(call, "id", given.get("id", ""))
    _put(call, "name", function.get("name", ""))
    _put(call, "arguments", function.get("arguments", ""))
    return call


def _tool(given: Mapping[str, Any]) -> Any:
    tool = pb.Tool()
    for name, value in _function(given, "tools").items():
        if name == "parameters":
            tool.parameters_json = json.dumps(value)
        elif value is not None:
            _put(tool, name, value)
    return tool


def _function(given: Any, where: str) -> Mapping[str, Any]:
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        raise failures.bad_option(f"`{where}` names no function")
    return function


def _put(message: Any, name: str, value: Any) -> None:
    if name not in message.DESCRIPTOR.fields_by_name:
        kind = message.DESCRIPTOR.name
        raise failures.bad_option(f"there is no field `{name[:64]}` in a {kind} of gRPC")
    try:
        setattr(message, name, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise failures.bad_option(f"`{name}` does not fit: {error}") from None
