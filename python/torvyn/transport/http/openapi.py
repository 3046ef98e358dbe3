"""The OpenAPI document of a server."""

from __future__ import annotations

from typing import Any, Final

from torvyn._contract.enums import PriorityClass
from torvyn.transport.http.pool_routes import ACTIONS

Json = dict[str, Any]

_OPTIONS: Final[Json] = {
    "max_tokens": {"type": "integer", "minimum": 0},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "seed": {"type": "integer"},
    "stop": {
        "oneOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}, "maxItems": 16},
        ]
    },
    "n": {"type": "integer", "minimum": 1, "maximum": 128},
    "logprobs": {"type": "boolean"},
    "top_logprobs": {"type": "integer", "minimum": 0, "maximum": 20},
    "tools": {"type": "array", "items": {"type": "object"}},
    "tool_choice": {"oneOf": [{"type": "string"}, {"type": "object"}]},
    "response_format": {"type": "object"},
    "user": {"type": "string"},
    "include_stop": {"type": "boolean"},
    "priority": {"enum": PriorityClass.texts()},
    "stream": {"type": "boolean"},
    "stream_options": {"type": "object"},
}
_STATEFUL: Final[Json] = {"stateful": {"type": "boolean"}}
_MESSAGES: Final[Json] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}},
}
_INPUT: Final[Json] = {"prompt": {"type": "string"}, "messages": _MESSAGES}
_EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}
_LINES: Final = {"application/x-ndjson": {"schema": {"type": "string"}}}
_JSON: Final = {"application/json": {"schema": {"type": "object"}}}
_HTML: Final = {"text/html": {"schema": {"type": "string"}}}
_BYTES: Final = {"*/*": {"schema": {"type": "string"}}}
_POOL_CHANGE: Final[Json] = {
    "type": "object",
    "properties": {
        "flow": {"type": "string"},
        "action": {"enum": list(ACTIONS)},
        "member": {"type": "string"},
        "address": {"type": "string"},
    },
    "required": ["action"],
    "additionalProperties": False,
}

_SECURITY: Final[Json] = {
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    "security": [{"key": []}],
}


def document(flows: list[str], root: str = "", has_keys: bool = False) -> Json:
    """The document for these flows; `root` is the path at which the server is mounted."""
    model = {"model": {"enum": flows}}
    own = _object({**_OPTIONS, **_STATEFUL, "flow": {"enum": flows}, **_INPUT}, [], closed=True)
    chat = _object(
        {**_OPTIONS, **model, "max_completion_tokens": {"type": "integer"}, "messages": _MESSAGES},
        ["messages"],
    )
    text = _object(
        {**_OPTIONS, **model, "logprobs": {"type": "integer"}, "prompt": {"type": "string"}},
        ["prompt"],
    )
    paths = {
        "/v1/streams": {"post": _operation("Stream an answer.", {**_EVENTS, **_LINES}, own)},
        "/v1/streams/{id}": {
            "get": _operation("Resume a stream.", {**_EVENTS, **_LINES}, None, "id"),
            "delete": _operation("Stop a stream.", _JSON, None, "id", "202"),
        },
        "/v1/ws": {"get": _operation("Many streams over one WebSocket.", {}, status="101")},
        "/v1/chat/completions": {
            "post": _operation("OpenAI's chat completions.", {**_JSON, **_EVENTS}, chat)
        },
        "/v1/completions": {
            "post": _operation("OpenAI's completions.", {**_JSON, **_EVENTS}, text)
        },
        "/v1/models": {"get": _operation("List the flows.", _JSON)},
        "/v1/models/{name}": {"get": _operation("Describe one flow.", _JSON, None, "name")},
        "/flows": {"get": _operation("List running answers and counters.", _JSON)},
        "/flows/{id}": {
            "get": _operation("Describe one answer and its element counts.", _JSON, None, "id")
        },
        "/pools": {
            "get": _operation("The members of the server's pools.", _JSON),
            "post": _operation("Change the members of a pool.", _JSON, _POOL_CHANGE),
        },
        "/metrics": {
            "get": _operation(
                "Metrics in Prometheus' format.", {"text/plain": {"schema": {"type": "string"}}}
            )
        },
        "/healthz": {"get": _operation("Check that the server runs.", _JSON)},
        "/readyz": {"get": _operation("Check that the server accepts requests.", _JSON)},
        "/": {"get": _operation("The chat page.", _HTML)},
        "/assets/{name}": {"get": _operation("A file of the chat page.", _BYTES, None, "name")},
        "/openapi.json": {"get": _operation("This document.", _JSON)},
    }
    info = {"title": "Torvyn", "version": "1", "description": "Services that answer requests."}
    servers = [{"url": root or "/"}]
    document = {"openapi": "3.1.0", "info": info, "servers": servers, "paths": paths}
    return {**document, **_SECURITY} if has_keys else document


def _object(properties: Json, required: list[str], closed: bool = False) -> Json:
    schema: Json = {"type": "object", "properties": properties, "additionalProperties": not closed}
    return {**schema, "required": required} if required else schema


def _operation(
    summary: str,
    content: Json,
    body: Json | None = None,
    parameter: str | None = None,
    status: str = "200",
) -> Json:
    operation: Json = {
        "summary": summary,
        "responses": {
            status: {"description": "The response.", "content": content},
            "default": {"description": "The error.", "content": _JSON},
        },
    }
    if body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    if parameter is not None:
        place = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [place]
    return operation
