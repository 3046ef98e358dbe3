"""The client library of OpenAI reads what we write. Skipped where it is not installed."""

from __future__ import annotations

import json
from typing import Any

from openai import _streaming as streaming
from openai.types import chat

from torvyn.protocol import Encoder, EndFrame, ErrorFrame, Finish, StartFrame, Usage


def chunks(wire: bytes) -> list[Any]:
    """The chunks a client sees; each must be valid by the library's own model."""
    events = list(streaming.SSEDecoder().iter_bytes(iter([wire])))
    assert events[-1].data == "[DONE]"
    model = chat.ChatCompletionChunk
    return [model.model_validate(json.loads(event.data), strict=True) for event in events[:-1]]


def test_a_whole_answer_with_heartbeats_is_read() -> None:
    encoder = Encoder.of(StartFrame("req-1", "chat", 1), "openai-chat", include_usage=True)
    parts = [encoder.heartbeat(), encoder.start(), encoder.heartbeat(), encoder.text('a"\u2028')]
    parts += [encoder.heartbeat(), encoder.encode(EndFrame(2, (Finish(0, "stop"),), Usage(3, 1)))]

    role, delta, finish, usage = chunks(b"".join(parts))
    assert role.choices[0].delta.role == "assistant"
    assert delta.choices[0].delta.content == 'a"\u2028'
    assert finish.choices[0].finish_reason == "stop"
    assert (usage.choices, usage.usage.total_tokens) == ([], 4)


def test_an_error_has_the_member_at_which_the_client_raises() -> None:
    encoder = Encoder.of(StartFrame("req-1", "chat", 1), "openai-chat")
    wire = encoder.encode(ErrorFrame(1, "a.b", "gone")) + encoder.encode(
        EndFrame(2, (Finish(0, "error"),))
    )

    error, done = streaming.SSEDecoder().iter_bytes(iter([wire]))
    assert error.json()["error"]["message"] == "gone"
    assert done.data == "[DONE]"
