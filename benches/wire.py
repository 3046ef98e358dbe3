"""The writers and readers of `frames`: one function each, created for every round.

A writer turns tokens into events, a reader turns events into texts. A peer that is not installed is
named in `left_out`.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator
from typing import Any

Writer = Callable[[list[str]], list[bytes]]
Reader = Callable[[list[bytes]], list[str]]
MakeWriter = Callable[[], Writer]
MakeReader = Callable[[], Reader]

ID, MODEL, CREATED = "chatcmpl-8f3a21", "chat", 1700000000


def record(text: str) -> dict[str, Any]:
    """The chunk of a token as a dict, as servers in Python build it."""
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None}
    return {
        "id": ID,
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
        "choices": [choice],
    }


def event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


FIRST = event(json.dumps(record("")).encode())
"""The first chunk of a stream, with the role."""


def stream(tokens: list[str]) -> list[bytes]:
    dumped = (
        json.dumps(record(text), ensure_ascii=False, separators=(",", ":")) for text in tokens
    )
    return [event(data.encode()) for data in dumped]


def plain_read(events: list[bytes]) -> list[str]:
    """The texts, by the simplest means."""
    return [json.loads(data)["choices"][0]["delta"]["content"] for data in data_lines(events)]


def data_lines(events: list[bytes]) -> Iterator[bytes]:
    for part in events:
        for line in part.split(b"\n"):
            if line.startswith(b"data: "):
                yield line[6:]


# Writers


def torvyn_text() -> Writer:
    encoder = _encoder()
    return lambda tokens: [encoder.text(token) for token in tokens]


def torvyn_stage() -> Writer:
    """Sixteen elements per call, through a flow whose last stage is the encoder."""
    import torvyn
    from torvyn.protocol import Frames

    flow = torvyn.Flow(Frames(_encoder()))
    return lambda tokens: [
        bytes(element.data)
        for at in range(0, len(tokens), 16)
        for element in flow.feed(tokens[at : at + 16])
    ]


def _encoder() -> Any:
    from torvyn.protocol import Encoder

    encoder = Encoder("openai-chat", "sse", id=ID, flow=MODEL, created=CREATED, epoch="e1")
    encoder.start()
    return encoder


def orjson_dict() -> Writer:
    import orjson

    return lambda tokens: [event(orjson.dumps(record(token))) for token in tokens]


def json_dict() -> Writer:
    return lambda tokens: [event(json.dumps(record(token)).encode()) for token in tokens]


def pydantic_model() -> Writer:
    """A pydantic model of the chunk, as vLLM, SGLang and FastChat have it."""
    from benches.peers.pydantic_chunk import chunk

    return lambda tokens: [
        event(chunk(ID, MODEL, CREATED, token).model_dump_json().encode()) for token in tokens
    ]


# Readers


def torvyn_tuples() -> Reader:
    from torvyn._native import ChunkParser

    parser = ChunkParser("openai-chat")
    parser.put(FIRST)
    return lambda events: [
        part[1] for data in events for part in parser.put(data) if isinstance(part, tuple)
    ]


def torvyn_deltas() -> Reader:
    from torvyn.protocol import ChunkDecoder

    decoder = ChunkDecoder()
    decoder.put(FIRST)
    return lambda events: [item.text for data in events for item in decoder.put(data)]  # type: ignore[union-attr]


def json_lines() -> Reader:
    return plain_read


def orjson_lines() -> Reader:
    import orjson

    def read(events: list[bytes]) -> list[str]:
        found = map(orjson.loads, data_lines(events))
        return [chunk["choices"][0]["delta"]["content"] for chunk in found]

    return read


def openai_stream() -> Reader:
    """What the client library does with each chunk of a response."""
    from openai._models import construct_type
    from openai._streaming import SSEDecoder
    from openai.types.chat import ChatCompletionChunk

    def read(events: list[bytes]) -> list[str]:
        found = SSEDecoder().iter_bytes(iter(events))
        chunks = (construct_type(type_=ChatCompletionChunk, value=one.json()) for one in found)
        return [chunk.choices[0].delta.content for chunk in chunks]  # type: ignore[attr-defined]

    return read


def writers(left_out: dict[str, str]) -> dict[str, MakeWriter]:
    made: dict[str, tuple[str | None, MakeWriter]] = {
        "torvyn `Encoder.text`": (None, torvyn_text),
        "torvyn `Frames`, 16 per `feed`": (None, torvyn_stage),
        "dict, `orjson.dumps`": ("orjson", orjson_dict),
        "dict, `json.dumps`": (None, json_dict),
        "pydantic, `model_dump_json`": ("pydantic", pydantic_model),
    }
    return _present(made, left_out)


def readers(left_out: dict[str, str]) -> dict[str, MakeReader]:
    made: dict[str, tuple[str | None, MakeReader]] = {
        "torvyn `ChunkDecoder`": (None, torvyn_deltas),
        "torvyn native, `(index, text)`": (None, torvyn_tuples),
        "split lines, `orjson.loads`": ("orjson", orjson_lines),
        "split lines, `json.loads`": (None, json_lines),
        "openai-python": ("openai", openai_stream),
    }
    return _present(made, left_out)


def _present(made: dict[str, tuple[str | None, Any]], left_out: dict[str, str]) -> dict[str, Any]:
    present = {}
    for name, (needs, make) in made.items():
        if needs is not None and importlib.util.find_spec(needs) is None:
            left_out[needs] = "not installed"
        else:
            present[name] = make
    return present
