"""Rejections over gRPC: their statuses and details."""

from __future__ import annotations

from typing import Any

import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_client import (
    HI,
    answering,
    calling,
    generate,
    grpc,
    pb,
    rejection_of,
    serving_calls,
    text_of,
    trailer,
)
from live_server import PATIENCE_S, wait_for
from watched_engines import Watched

from torvyn.engine import Scripted, Service

Code = grpc.StatusCode
INVALID = "transport.request-invalid"


def request(**fields: Any) -> Any:
    return pb.GenerateRequest(**{"prompt": "Hi", **fields})


@pytest.mark.parametrize(
    ("asked", "code", "named"),
    [
        (pb.GenerateRequest(), Code.INVALID_ARGUMENT, INVALID),
        (request(messages=[pb.Message(role="user")]), Code.INVALID_ARGUMENT, INVALID),
        (request(temperature=9), Code.INVALID_ARGUMENT, "engine.request-invalid"),
        (request(n=-1), Code.INVALID_ARGUMENT, "engine.request-invalid"),
        (request(stop=[""]), Code.INVALID_ARGUMENT, "engine.request-invalid"),
        (request(priority="now"), Code.INVALID_ARGUMENT, "engine.request-invalid"),
        (request(flow="chta"), Code.NOT_FOUND, "transport.flow-unknown"),
        (request(response_format_json="{"), Code.INVALID_ARGUMENT, INVALID),
        (request(response_format_json="[]"), Code.INVALID_ARGUMENT, INVALID),
        (
            request(tools=[pb.Tool(name="a", parameters_json='{"a":' * 70 + "1" + "}" * 70)]),
            Code.INVALID_ARGUMENT,
            INVALID,
        ),
        (
            pb.GenerateRequest(messages=[pb.Message(role="user", content_json="7")]),
            Code.INVALID_ARGUMENT,
            INVALID,
        ),
        (
            pb.GenerateRequest(messages=[pb.Message(role="nobody", content="Hi")]),
            Code.INVALID_ARGUMENT,
            "engine.request-invalid",
        ),
    ],
)
def test_a_wrong_request_is_refused(asked: Any, code: Any, named: str) -> None:
    with answering(Scripted("a")) as (_, stub):
        error = rejection_of(stub.Generate(asked, timeout=PATIENCE_S))

    assert (error.code(), trailer(error, "torvyn-code")) == (code, named)


def test_a_list_of_parts_cannot_smuggle_members_of_its_own() -> None:
    message = pb.Message(role="user", content_json='[],"parts":[{"type":"text"}]')
    with answering(Scripted("a")) as (_, stub):
        error = rejection_of(stub.Generate(pb.GenerateRequest(messages=[message])))

    assert error.code() is Code.INVALID_ARGUMENT


def raw(server: Any, data: bytes, **options: Any) -> Any:
    """A call with bytes of one's own."""
    channel = grpc.insecure_channel(server.grpc, **options)
    method = channel.unary_stream("/torvyn.v1.Inference/Generate")
    return rejection_of(method(data, timeout=PATIENCE_S))


def test_invalid_bytes_are_rejected_with_a_message() -> None:
    with serving_calls(Scripted("a")) as server:
        error = raw(server, b"\xff\xff")

    assert error.code() is Code.INVALID_ARGUMENT
    assert trailer(error, "torvyn-code") == "transport.bad-message"
    assert "GenerateRequest" in error.details()


def test_a_field_that_this_server_does_not_know_is_refused() -> None:
    later = HI.SerializeToString() + b"\xf8\x07\x01"  # field 127
    nested = pb.GenerateRequest(messages=[pb.Message(role="user", content="Hi")])
    inner = nested.messages[0].SerializeToString() + b"\xf8\x07\x01"
    with serving_calls(Scripted("a")) as server:
        errors = [raw(server, data) for data in (later, b"\x1a" + bytes([len(inner)]) + inner)]

    assert [error.code() for error in errors] == [Code.INVALID_ARGUMENT] * 2
    assert all("field 127" in error.details() for error in errors)


def test_a_message_that_is_too_large_is_not_read() -> None:
    with serving_calls(Scripted("a"), max_body_bytes=1000) as server:
        error = raw(server, request(prompt="x" * 3000).SerializeToString())

    assert error.code() is Code.RESOURCE_EXHAUSTED


def test_a_compressed_message_is_refused_and_not_unpacked() -> None:
    with serving_calls(Scripted("a")) as server:
        bomb = request(prompt="x" * 50_000_000).SerializeToString()
        error = raw(server, bomb, compression=grpc.Compression.Gzip)

    assert error.code() is Code.UNIMPLEMENTED
    assert trailer(error, "torvyn-code") == "transport.encoding-refused"


def test_a_request_that_is_not_admitted_gets_a_retry_time() -> None:
    with answering(Watched(pause_s=60), max_streams=1, admission_wait_s=0.01) as (_, stub):
        running = stub.Generate(HI)
        next(running)
        error = rejection_of(stub.Generate(HI, timeout=PATIENCE_S))
        running.cancel()

    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert trailer(error, "retry-after") == "1"
    info, retry = details_of(error)
    assert (info.reason, info.domain) == ("transport.busy", "torvyn")
    assert "max_streams" in info.metadata["hint"]
    assert retry.retry_delay.seconds == 1


def details_of(error: Any) -> tuple[Any, Any]:
    """What the rich status of gRPC says."""
    status = status_pb2.Status.FromString(trailer(error, "grpc-status-details-bin"))
    assert status.message == error.details()
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(retry)
    return info, retry


def test_a_server_that_ends_takes_no_more_requests() -> None:
    with answering(Watched(pause_s=60)) as (server, stub):
        server.application.running.is_draining = True
        error = rejection_of(stub.Generate(HI, timeout=PATIENCE_S))

    assert error.code() is Code.UNAVAILABLE
    assert trailer(error, "torvyn-code") == "transport.shutting-down"


def test_a_request_names_its_flow_where_there_are_several() -> None:
    services = {name: Service(name, Scripted(name)) for name in ("one", "two")}
    with answering(services) as (_, stub):
        error = rejection_of(stub.Generate(HI, timeout=PATIENCE_S))
        assert text_of(generate(stub, flow="two")) == "two"

    assert error.code() is Code.INVALID_ARGUMENT


def test_what_a_server_does_wrong_stays_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Scripted):
        def generate(self, *asked: Any, **options: Any) -> Any:
            raise ZeroDivisionError("private")

    with answering(Broken("a")) as (_, stub):
        error = rejection_of(stub.Generate(HI, timeout=PATIENCE_S))

    assert error.code() is Code.INTERNAL
    assert "private" not in error.details()
    assert "private" in caplog.text


def test_a_message_for_people_shows_no_secret() -> None:
    services = {"chat": Service("chat", Scripted("a"))}
    with answering(services, secrets=frozenset({"hunter22"})) as (_, stub):
        error = rejection_of(stub.Generate(request(flow="hunter22"), timeout=PATIENCE_S))

    assert "hunter22" not in str(error)


def test_refusals_are_counted_by_their_status() -> None:
    with answering(Scripted("a")) as (server, stub):
        rejection_of(stub.Generate(request(flow="x"), timeout=PATIENCE_S))
        requests = server.application.metrics.requests
        number = Code.NOT_FOUND.value[0]
        wait_for(lambda: requests["GRPC", "/torvyn.v1.Inference/Generate", number] == 1)


def test_an_unknown_method_is_unimplemented() -> None:
    with serving_calls(Scripted("a")) as server, calling(server):
        channel = grpc.insecure_channel(server.grpc)
        call = channel.unary_unary("/torvyn.v1.Inference/Nothing")
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=PATIENCE_S)

    assert caught.value.code() is Code.UNIMPLEMENTED
