"""Access over gRPC: API keys in the metadata, tenants, limits and TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grpc_client import (
    ALONE,
    HI,
    answering,
    generate,
    grpc,
    pb,
    rejection_of,
    serving_calls,
    text_of,
    trailer,
)
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from live_server import PATIENCE_S
from test_grpc_session import Talk
from watched_engines import Watched

from torvyn.engine import Scripted
from torvyn.v1 import inference_pb2_grpc

Code = grpc.StatusCode


def shown(key: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {key}"),), "timeout": PATIENCE_S}


def test_a_key_is_shown_in_the_metadata(keyed: Any) -> None:
    key = keyed.keys["first"]
    with answering(Scripted("Hello"), keys=str(keyed.path)) as (_, stub):
        text = "".join(frame.delta.text for frame in stub.Generate(HI, **shown(key)))

    assert text == "Hello"


@pytest.mark.parametrize(
    ("more", "code"),
    [({}, "transport.key-missing"), (shown("tvn_wrong"), "transport.key-wrong")],
    ids=["none", "wrong"],
)
def test_a_missing_or_wrong_key_is_reported(keyed: Any, more: Any, code: str) -> None:
    with answering(Scripted("Hello"), keys=str(keyed.path)) as (_, stub):
        errors = [
            rejection_of(stub.Generate(HI, **more)),
            rejection_of(stub.Session(iter([]), **more)),
        ]

    assert [error.code() for error in errors] == [Code.UNAUTHENTICATED] * 2
    assert [trailer(error, "torvyn-code") for error in errors] == [code] * 2


def test_the_health_of_a_server_needs_no_key_and_what_it_offers_does(keyed: Any) -> None:
    key = keyed.keys["first"]
    asks = reflection_pb2.ServerReflectionRequest(list_services="")
    with (
        serving_calls(Scripted("a"), keys=str(keyed.path)) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        error = rejection_of(stub.ServerReflectionInfo(iter([asks]), timeout=PATIENCE_S))
        (answer,) = stub.ServerReflectionInfo(iter([asks]), **shown(key))

    assert error.code() is Code.UNAUTHENTICATED
    assert answer.list_services_response.service


def test_a_key_has_as_many_streams_as_it_may(keyed: Any) -> None:
    key = keyed.add("one", max_streams=1)
    settings = {"keys": str(keyed.path), "first_byte_wait_s": 0.0}
    with answering(Watched(pause_s=60), **settings) as (_, stub):
        running = stub.Generate(HI, **shown(key))
        next(running)
        error = rejection_of(stub.Generate(HI, **shown(key)))
        running.cancel()

    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert trailer(error, "torvyn-code") == "transport.key-busy"
    assert int(trailer(error, "retry-after")) >= 1


def test_a_stream_of_another_tenant_is_unknown(keyed: Any) -> None:
    first, second = keyed.add("one", tenant="a"), keyed.add("two", tenant="b")
    with answering(Scripted("Hello"), keys=str(keyed.path)) as (_, stub):
        request = pb.GenerateRequest(prompt="Hi", stateful=True)
        id = next(stub.Generate(request, **shown(first))).start.id
        talk = Talk(stub, **shown(second))
        talk.say("x", resume=pb.Resume(id=id))
        refused = talk.next().refused
        talk.hang_up()

    assert refused.code == "transport.stream-unknown"


def test_calls_are_answered_over_tls(tmp_path: Path) -> None:
    from certificates import Files

    files = Files(tmp_path)
    trusted = grpc.ssl_channel_credentials(Path(files.trusted).read_bytes())
    with serving_calls(Scripted("Hello"), **files.settings) as server:
        with grpc.secure_channel(server.grpc, trusted, options=[ALONE]) as channel:
            frames = generate(inference_pb2_grpc.InferenceStub(channel))
        with grpc.insecure_channel(server.grpc, options=[ALONE]) as channel:
            error = rejection_of(inference_pb2_grpc.InferenceStub(channel).Generate(HI, timeout=5))

    assert text_of(frames) == "Hello"
    assert error.code() is Code.UNAVAILABLE
