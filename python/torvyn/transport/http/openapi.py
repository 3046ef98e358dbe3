"""What a server offers, as an OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

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
    "priority": {"enum": ["critical", "high", "normal", "low", "background"]},
    "stream": {"type": "boolean"},
    "stream_options": {"type": "object"},
}
_STATEFUL: Final[Json] = {"stateful": {"type": "boolean"}}
_MESSAGES: Final[Json] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "object", "required": ["role"], "properties": {"role": {"type": "string"}}},
}
_EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}
_LINES: Final = {"application/x-ndjson": {"schema": {"type": "string"}}}
_JSON: Final = {"application/json": {"schema": {"type": "object"}}}
_HTML: Final = {"text/html": {"schema": {"type": "string"}}}
_BYTES: Final = {"*/*": {"schema": {"type": "string"}}}

_KEYED: Final[Json] = {
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    "security": [{"key": []}],
}


def document(flows: list[str], root: str = "", has_keys: bool = False) -> Json:
    """The document, with the flows that can be asked for; paths are below `root`."""
    model = {"model": {"enum": flows}}
    own = _object({**_OPTIONS, **_STATEFUL, "flow": {"enum": flows}, **_asked()}, [], closed=True)
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
            "get": _operation("Come back to a stream.", {**_EVENTS, **_LINES}, None, "id"),
            "delete": _operation("Stop a stream.", _JSON, None, "id", "202"),
        },
        "/v1/ws": {"get": _operation("Many streams on a WebSocket.", {}, status="101")},
        "/v1/chat/completions": {
            "post": _operation("OpenAI's chat completions.", {**_JSON, **_EVENTS}, chat)
        },
        "/v1/completions": {
            "post": _operation("OpenAI's completions.", {**_JSON, **_EVENTS}, text)
        },
        "/v1/models": {"get": _operation("The flows.", _JSON)},
        "/v1/models/{name}": {"get": _operation("One flow.", _JSON, None, "name")},
        "/flows": {"get": _operation("What runs now, and what was counted.", _JSON)},
        "/flows/{id}": {
            "get": _operation("One answer, and what its flows have counted.", _JSON, None, "id")
        },
        "/metrics": {
            "get": _operation("For Prometheus.", {"text/plain": {"schema": {"type": "string"}}})
        },
        "/healthz": {"get": _operation("Whether the server lives.", _JSON)},
        "/readyz": {"get": _operation("Whether it takes requests.", _JSON)},
        "/": {"get": _operation("A chat in the browser.", _HTML)},
        "/assets/{name}": {"get": _operation("A file of it.", _BYTES, None, "name")},
        "/openapi.json": {"get": _operation("This document.", _JSON)},
    }
    info = {"title": "Torvyn", "version": "1", "description": "Flows that answer requests."}
    servers = [{"url": root or "/"}]
    made = {"openapi": "3.1.0", "info": info, "servers": servers, "paths": paths}
    return {**made, **_KEYED} if has_keys else made


def _asked() -> Json:
    return {"prompt": {"type": "string"}, "messages": _MESSAGES}


def _object(properties: Json, required: list[str], closed: bool = False) -> Json:
    made: Json = {"type": "object", "properties": properties, "additionalProperties": not closed}
    return {**made, "required": required} if required else made


def _operation(
    summary: str,
    content: Json,
    body: Json | None = None,
    parameter: str | None = None,
    status: str = "200",
) -> Json:
    made: Json = {
        "summary": summary,
        "responses": {
            status: {"description": "The answer.", "content": content},
            "default": {"description": "Why there is none.", "content": _JSON},
        },
    }
    if body is not None:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    if parameter is not None:
        place = {"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}
        made["parameters"] = [place]
    return made
