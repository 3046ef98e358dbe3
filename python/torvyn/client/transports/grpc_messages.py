"""Converts a channel's records to gRPC messages, and the server's messages to `ServerMessage`.

Pure. An option that has no field in the gRPC message is an error, because it could not be sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from torvyn.client import failures
from torvyn.client.transports.channel import ServerMessage
from torvyn.protocol.proto_decoder import frame_from_message
from torvyn.v1 import inference_pb2 as pb

_CHANNEL_FIELDS: Final = frozenset({"type", "stream_id", "credit"})


def server_message(message: Any, secret: str | None) -> ServerMessage:
    kind = message.WhichOneof("message")
    stream_id = message.stream_id or None
    if kind == "pong":
        return ServerMessage("pong")
    if kind == "refused":
        payload = message.refused
        record = {name: getattr(payload, name) for name in ("code", "message", "retryable")}
        # A server of an earlier version says no status.
        record["status"] = payload.status or None
        for name in ("hint", "retry_after_s"):
            if payload.HasField(name):
                record[name] = getattr(payload, name)
        return ServerMessage(
            "refused", stream_id, rejection=failures.error_from_record(record, secret)
        )
    if kind != "frame":
        return ServerMessage("other")
    frame = frame_from_message(message.frame)
    if frame is None:
        return ServerMessage("other")
    return ServerMessage("frame", stream_id, frame, message.frame.start.epoch or None)


def client_message(record: Mapping[str, Any]) -> Any:
    """A `ClientMessage`."""
    kind = record["type"]
    message = pb.ClientMessage(stream_id=record.get("stream_id", ""))
    payload = getattr(message, kind)
    payload.SetInParent()
    if kind == "start":
        payload.credit = record["credit"]
        fields = {name: value for name, value in record.items() if name not in _CHANNEL_FIELDS}
        _fill_request(payload.request, fields)
        return message
    for name, value in record.items():
        if name == "stop":
            payload.stop.extend(value)
        elif name not in ("type", "stream_id"):
            _put(payload, name, value)
    return message


def _fill_request(request: Any, body: dict[str, Any]) -> None:
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


def _message(fields: Mapping[str, Any]) -> Any:
    message = pb.Message()
    for name, value in fields.items():
        if value is None:
            continue
        if name == "content" and not isinstance(value, str):
            message.content_json = json.dumps(value)
        elif name == "tool_calls":
            message.tool_calls.extend(_call(one) for one in value)
        else:
            _put(message, name, value)
    return message


def _call(fields: Mapping[str, Any]) -> Any:
    function = _function(fields, "tool_calls")
    call = pb.ToolCall()
    _put(call, "id", fields.get("id", ""))
    _put(call, "name", function.get("name", ""))
    _put(call, "arguments", function.get("arguments", ""))
    return call


def _tool(fields: Mapping[str, Any]) -> Any:
    tool = pb.Tool()
    for name, value in _function(fields, "tools").items():
        if name == "parameters":
            tool.parameters_json = json.dumps(value)
        elif value is not None:
            _put(tool, name, value)
    return tool


def _function(value: Any, option: str) -> Mapping[str, Any]:
    function = value.get("function") if isinstance(value, Mapping) else None
    if not isinstance(function, Mapping):
        raise failures.bad_option(f"`{option}` must name a function")
    return function


def _put(message: Any, name: str, value: Any) -> None:
    if name not in message.DESCRIPTOR.fields_by_name:
        kind = message.DESCRIPTOR.name
        raise failures.bad_option(
            f"`{name[:64]}` cannot be sent over gRPC: {kind} has no such field"
        )
    try:
        setattr(message, name, value)
    except (TypeError, ValueError, AttributeError) as error:
        raise failures.bad_option(f"`{name}` has the wrong type for gRPC: {error}") from None
