"""gRPC clients for the tests, on a real channel to a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from live_server import PATIENCE_S, Served, served

from torvyn.protocol.frames import DeltaFrame, Frame
from torvyn.protocol.proto_decoder import frame_from_message
from torvyn.v1 import inference_pb2 as pb
from torvyn.v1 import inference_pb2_grpc

HI = pb.GenerateRequest(prompt="Hi")
# A channel to a port that another test had is not to be found again.
ALONE = ("grpc.use_local_subchannel_pool", 1)


@contextmanager
def calling(server: Served, *options: tuple[str, int]) -> Iterator[Any]:
    """A stub on a channel of its own."""
    with grpc.insecure_channel(server.grpc, options=[ALONE, *options]) as channel:
        yield inference_pb2_grpc.InferenceStub(channel)


@contextmanager
def serving_calls(engine: Any, **settings: Any) -> Iterator[Served]:
    """A server with gRPC beside HTTP."""
    with served(engine, **settings) as server:
        yield server


@contextmanager
def answering(engine: Any, **settings: Any) -> Iterator[tuple[Served, Any]]:
    """A server with gRPC, and a stub."""
    with serving_calls(engine, **settings) as server, calling(server) as stub:
        yield server, stub


def frames_of(call: Any) -> list[Frame]:
    """All that comes, until the call ends."""
    frames = [frame_from_message(message) for message in call]
    return [frame for frame in frames if frame is not None]


def generate(stub: Any, **fields: Any) -> list[Frame]:
    request = pb.GenerateRequest(**{"prompt": "Hi", **fields})
    return frames_of(stub.Generate(request, timeout=PATIENCE_S))


def text_of(frames: list[Frame], index: int = 0) -> str:
    deltas = [frame for frame in frames if isinstance(frame, DeltaFrame) and frame.index == index]
    return "".join(delta.text for delta in deltas if delta.kind == "text")


def rejection_of(call: Any) -> Any:
    """The error with which a call ends."""
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return caught.value


def trailer(error: Any, name: str) -> Any:
    return dict(error.trailing_metadata()).get(name)
