"""The body of a request as the payloads of elements. Pure."""

from __future__ import annotations

import json
from typing import Final

from torvyn.components.json_fields import JSON_TYPE, parse_json, write_json
from torvyn.errors import InvalidInput

NDJSON_TYPES: Final = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)


def split_body(body: bytes, content_type: str, format: str) -> tuple[list[bytes], str]:
    """The payloads and their content type; raises `InvalidInput` if the body is not of its format.

    Lines are not parsed: what is in them is the business of the flow.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if format == "auto":
        format = "ndjson" if kind in NDJSON_TYPES else "json" if kind == JSON_TYPE else "raw"
    if format == "raw":
        return [body], content_type or "application/octet-stream"
    if format == "ndjson":
        lines = [line.rstrip(b"\r") for line in body.split(b"\n")]
        return [line for line in lines if line.strip()], JSON_TYPE
    return _items(body), JSON_TYPE


def _items(body: bytes) -> list[bytes]:
    """The items of a JSON array, or the one value of another body."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8: {error.reason}") from error
    value = parse_json(text)
    if not isinstance(value, list):
        return [body]
    try:
        return [write_json(item).encode() for item in value]
    except (RecursionError, json.JSONDecodeError) as error:
        raise InvalidInput("the body is nested too deeply") from error
