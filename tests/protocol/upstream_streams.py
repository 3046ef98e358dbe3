"""Streams of upstreams and what a decoder says of them, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torvyn.protocol import ChunkDecoder, DeltaFrame

STREAMS = Path(__file__).parent / "streams"
NAMES = sorted(path.stem for path in STREAMS.glob("*.txt"))


def decode(name: str, size: int = 1 << 20, choices: int = 1) -> list[Any]:
    decoder = ChunkDecoder(
        "openai-completions" if "completions" in name else "openai-chat", choices=choices
    )
    data = (STREAMS / f"{name}.txt").read_bytes()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [item for piece in pieces for item in decoder.put(piece)] + decoder.finish()


def put(*chunks: Any, dialect: Any = "openai-chat") -> list[Any]:
    """What chunks say, after a first one that begins choice 0."""
    decoder = ChunkDecoder(dialect)
    decoder.put(b'data: {"id":"x","choices":[{"index":0,"delta":{},"text":""}]}\n\n')
    events = (f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    return [item for event in events for item in decoder.put(event)]


def content(text: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def said(items: list[Any], index: int = 0, kind: str = "text") -> str:
    deltas = (item for item in items if isinstance(item, DeltaFrame))
    return "".join(item.text for item in deltas if (item.index, item.kind) == (index, kind))


def of(items: list[Any], kind: type) -> list[Any]:
    return [item for item in items if isinstance(item, kind)]
