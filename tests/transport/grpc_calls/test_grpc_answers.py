"""Answers over gRPC, as clients of grpcio receive them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from grpc_client import (
    HI,
    answering,
    calling,
    frames_of,
    generate,
    grpc,
    pb,
    text_of,
)
from live_server import PATIENCE_S, wait_for
from watched_engines import Watched

from torvyn.engine import Request, Scripted
from torvyn.errors import Unavailable
from torvyn.protocol import DeltaFrame, EndFrame, ErrorFrame, StartFrame, ToolCall
from torvyn.v1 import inference_pb2_grpc

TOOL = pb.Tool(
    name="weather",
    description="Of a city",
    parameters_json='{"type": "object", "minProperties": 1, "properties": {"b": {}, "a": {}}}',
)


class Noting(Scripted):
    """Keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("ok")
        self.request: Any = None

    def steps(self, request: Request) -> Any:
        self.request = request
        return super().steps(request)


@pytest.mark.promise("inference.grpc")
def test_an_answer_is_a_start_deltas_and_an_end() -> None:
    with answering(Scripted("Hello there, world")) as (_, stub):
        call = stub.Generate(HI, timeout=PATIENCE_S)
        frames = frames_of(call)

    assert text_of(frames) == "Hello there, world"
    assert isinstance(frames[0], StartFrame)
    assert isinstance(frames[-1], EndFrame)
    assert [frame.seq for frame in frames[1:]] == [1, 2, 3]
    assert frames[-1].finish[0].reason == "stop"
    assert frames[-1].usage.completion_tokens == 3
    assert call.code() is grpc.StatusCode.OK


def test_a_program_on_an_event_loop_is_answered_too() -> None:
    async def ask(address: str) -> str:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            return "".join([frame.delta.text async for frame in stub.Generate(HI)])

    with answering(Scripted("Hello")) as (server, _):
        assert asyncio.run(ask(server.grpc)) == "Hello"


def test_every_choice_has_its_text_and_its_finish() -> None:
    with answering(Scripted(answers=["one", "two", "three"])) as (_, stub):
        frames = generate(stub, n=3)

    assert [text_of(frames, index) for index in range(3)] == ["one", "two", "three"]
    assert isinstance(frames[-1], EndFrame)
    assert sorted(one.index for one in frames[-1].finish) == [0, 1, 2]


def test_likelihoods_come_with_their_tokens() -> None:
    with answering(Scripted("one two")) as (_, stub):
        frames = generate(stub, logprobs=True, top_logprobs=2)

    odds = [
        odds for frame in frames if isinstance(frame, DeltaFrame) for odds in frame.logprobs or ()
    ]
    assert [one["token"] for one in odds] == ["one", " two"]
    assert [bytes(one["bytes"]) for one in odds] == [b"one", b" two"]
    assert all(one["logprob"] < 0 and len(one["top_logprobs"]) == 2 for one in odds)


def test_reasoning_and_tool_calls_are_distinct_from_text() -> None:
    call = ToolCall(0, "call_1", "weather", '{"city": "Paris"}')
    script = [("reasoning", "hm"), "text", call]
    with answering(Scripted(script, finish_reason="tool_calls")) as (_, stub):
        frames = generate(stub, tools=[TOOL])

    deltas = [frame for frame in frames if isinstance(frame, DeltaFrame)]
    assert [delta.kind for delta in deltas] == ["reasoning", "text", "tool_call"]
    assert deltas[-1].call == call
    assert isinstance(frames[-1], EndFrame)
    assert frames[-1].finish[0].reason == "tool_calls"


def test_every_option_reaches_the_engine() -> None:
    engine = Noting()
    options: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": -7,
        "stop": ["x", "y"],
        "include_stop": True,
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "user": "u",
        "priority": "low",
    }
    with answering(engine) as (_, stub):
        generate(stub, **options, flow="chat")

    got = {name: getattr(engine.request, name) for name in options}
    assert got == {**options, "stop": ("x", "y")}


def test_what_was_not_set_is_left_to_the_flow() -> None:
    engine = Noting()
    with answering(engine) as (_, stub):
        generate(stub)

    assert engine.request == Request(prompt="Hi", id=engine.request.id)


def test_tools_and_formats_arrive_as_they_do_in_json() -> None:
    engine = Noting()
    with answering(engine) as (_, stub):
        generate(
            stub,
            tools=[TOOL],
            tool_choice_function="weather",
            response_format_json='{"type":"json_object"}',
        )

    (tool,) = engine.request.tools
    function = {"name": "weather", "description": "Of a city"}
    parameters = json.loads(TOOL.parameters_json)
    assert tool == {"type": "function", "function": {**function, "parameters": parameters}}
    # The order of members and whole numbers are kept, which a Struct would not do.
    assert json.dumps(tool["function"]["parameters"]) == TOOL.parameters_json
    assert engine.request.tool_choice == {"type": "function", "function": {"name": "weather"}}
    assert engine.request.response_format == {"type": "json_object"}


def test_messages_arrive_as_they_do_in_json() -> None:
    engine = Noting()
    made = pb.ToolCall(id="call_1", name="weather", arguments="{}")
    messages = [
        pb.Message(role="user", content_json='[{"type": "text", "text": "Hi"}]'),
        pb.Message(role="assistant", tool_calls=[made]),
        pb.Message(role="tool", tool_call_id="call_1", content="sunny", name="weather"),
    ]
    with answering(engine) as (_, stub):
        frames_of(stub.Generate(pb.GenerateRequest(messages=messages), timeout=PATIENCE_S))

    function = {"name": "weather", "arguments": "{}"}
    assert list(engine.request.messages) == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "sunny", "name": "weather", "tool_call_id": "call_1"},
    ]


@pytest.mark.promise("inference.error-frames")
def test_a_failure_on_the_way_is_a_frame_before_the_end() -> None:
    error = Unavailable("the engine went away", code="engine.unavailable")
    with answering(Scripted("one two three", fail_at=1, error=error)) as (_, stub):
        call = stub.Generate(HI, timeout=PATIENCE_S)
        frames = frames_of(call)

    failure, end = frames[-2:]
    assert isinstance(failure, ErrorFrame)
    assert (failure.code, failure.retryable) == ("engine.unavailable", True)
    assert isinstance(end, EndFrame)
    assert end.finish[0].reason == "error"
    assert call.code() is grpc.StatusCode.OK


def test_a_stream_that_waits_sends_heartbeats() -> None:
    settings = {"heartbeat_s": 0.02, "first_byte_wait_s": 0.02}
    with answering(Watched(pause_s=60), **settings) as (_, stub):
        call = stub.Generate(HI, timeout=PATIENCE_S)
        kinds = [next(call).WhichOneof("frame") for _ in range(3)]
        call.cancel()

    assert kinds == ["start", "heartbeat", "heartbeat"]


def test_the_head_comes_before_a_late_first_token_with_the_id_of_the_answer() -> None:
    with answering(Watched(pause_s=60), first_byte_wait_s=0.02) as (_, stub):
        chosen = (("x-request-id", "mine-1"),)
        calls = [stub.Generate(HI, timeout=PATIENCE_S, metadata=chosen) for _ in range(2)]
        ids = [dict(call.initial_metadata())["x-request-id"] for call in calls]
        assert "mine-1" in ids
        assert len(set(ids)) == 2
        assert [next(iter(call)).start.id for call in calls] == ids
        for call in calls:
            call.cancel()


def test_a_trace_goes_on_in_the_answer() -> None:
    asked_by = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with answering(Scripted("a")) as (_, stub):
        call = stub.Generate(HI, timeout=PATIENCE_S, metadata=(("traceparent", asked_by),))
        answered = dict(call.initial_metadata())["traceparent"]

    assert answered.split("-")[1] == asked_by.split("-")[1]
    assert answered.split("-")[2] != asked_by.split("-")[2]


def test_calls_are_counted_with_the_requests() -> None:
    with answering(Scripted("a")) as (server, stub):
        generate(stub)
        requests = server.application.metrics.requests
        wait_for(lambda: requests["GRPC", "/torvyn.v1.Inference/Generate", 0] == 1)


def test_a_stateful_answer_is_the_same_and_is_kept() -> None:
    with answering(Scripted("Hello there")) as (server, stub):
        call = stub.Generate(pb.GenerateRequest(prompt="Hi", stateful=True), timeout=PATIENCE_S)
        messages = list(call)
        assert len(server.application.sessions) == 1

    assert "".join(message.delta.text for message in messages) == "Hello there"
    assert messages[0].start.epoch
    assert messages[-1].WhichOneof("frame") == "end"
    assert [message.seq for message in messages] == list(range(len(messages)))


def test_two_hundred_calls_of_one_channel_are_answered_side_by_side() -> None:
    engine = Scripted("Hello there, world", delay=0.01)
    with answering(engine) as (server, _), calling(server) as stub:
        calls = [stub.Generate(HI, timeout=PATIENCE_S) for _ in range(200)]
        texts = {text_of(frames_of(call)) for call in calls}

    assert texts == {"Hello there, world"}
