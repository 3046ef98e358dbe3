"""Health, reflection and `torvyn serve` over gRPC."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_client import ALONE, HI, calling, frames_of, grpc, serving_calls, text_of
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from live_server import PATIENCE_S
from serve_process import MANIFEST, serving
from watched_engines import Watched

from torvyn.engine import Scripted
from torvyn.protocol import EndFrame, ErrorFrame
from torvyn.v1 import inference_pb2_grpc

SERVICE = "torvyn.v1.Inference"
Health = health_pb2.HealthCheckResponse


def health_of(channel: Any, name: str) -> Any:
    asked = health_pb2.HealthCheckRequest(service=name)
    return health_pb2_grpc.HealthStub(channel).Check(asked, timeout=PATIENCE_S).status


def test_the_health_of_the_server_and_of_its_service_is_served() -> None:
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        assert [health_of(channel, name) for name in ("", SERVICE)] == [Health.SERVING] * 2
        with pytest.raises(grpc.RpcError) as caught:
            health_of(channel, "other")

    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_the_health_of_all_services_is_listed() -> None:
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        request = health_pb2.HealthListRequest()
        listed = health_pb2_grpc.HealthStub(channel).List(request, timeout=PATIENCE_S).statuses

    assert {name: one.status for name, one in listed.items()} == {
        "": Health.SERVING,
        SERVICE: Health.SERVING,
    }


def test_a_server_that_drains_is_not_serving() -> None:
    engine = Watched(pause_s=0.01)
    with serving_calls(engine, shutdown_grace_s=2.0) as server, calling(server) as stub:
        channel = grpc.insecure_channel(server.grpc, options=[ALONE])
        watched = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == Health.SERVING
        call = stub.Generate(HI)
        next(call)
        ending = threading.Thread(target=server.end)
        ending.start()
        # While the last stream goes on.
        assert next(watched).status == Health.NOT_SERVING
        assert health_of(channel, SERVICE) == Health.NOT_SERVING
        call.cancel()
        ending.join()


def test_the_health_of_a_service_that_does_not_exist_is_watched_as_unknown() -> None:
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        request = health_pb2.HealthCheckRequest(service="other")
        watched = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=PATIENCE_S)
        assert next(watched).status == Health.SERVICE_UNKNOWN
        watched.cancel()


def reflected(channel: Any, version: str = "v1alpha", **asked: Any) -> Any:
    """The answer of that version of reflection; both have the same messages."""
    ask = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    request = reflection_pb2.ServerReflectionRequest(**asked)
    (answer,) = ask(iter([request]), timeout=PATIENCE_S)
    return answer


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_itself_in_both_versions(version: str) -> None:
    package = f"grpc.reflection.{version}"
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        asked = {"file_containing_symbol": f"{package}.ServerReflection"}
        found = reflected(channel, version, **asked).file_descriptor_response

    (file,) = map(descriptor_pb2.FileDescriptorProto.FromString, found.file_descriptor_proto)
    assert (file.package, file.service[0].name) == (package, "ServerReflection")
    assert file.service[0].method[0].input_type == f".{package}.ServerReflectionRequest"
    names = {field.type_name for message in file.message_type for field in message.field}
    assert all(name.startswith(f".{package}.") for name in names if name)


@pytest.mark.parametrize(
    "asked",
    [
        {"file_by_filename": "other.proto"},
        {"file_containing_symbol": "other.Service"},
        {"all_extension_numbers_of_type": "other.Message"},
        {
            "file_containing_extension": reflection_pb2.ExtensionRequest(
                containing_type="torvyn.v1.Frame", extension_number=100
            )
        },
    ],
    ids=lambda asked: next(iter(asked)),
)
def test_what_reflection_does_not_know_is_not_found(asked: dict[str, Any]) -> None:
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        error = reflected(channel, "v1", **asked).error_response

    assert error.error_code == grpc.StatusCode.NOT_FOUND.value[0]


def test_a_client_that_knows_nothing_finds_out_what_there_is() -> None:
    with (
        serving_calls(Scripted("a")) as server,
        grpc.insecure_channel(server.grpc, options=[ALONE]) as channel,
    ):
        listed = reflected(channel, list_services="").list_services_response.service
        found = reflected(channel, file_containing_symbol=SERVICE).file_descriptor_response

    names = {one.name for one in listed}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
    files = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in found.file_descriptor_proto]
    (service,) = next(f for f in files if f.package == "torvyn.v1").service
    methods = {method.name: method for method in service.method}
    assert methods["Generate"].server_streaming
    assert not methods["Generate"].client_streaming
    assert methods["Session"].client_streaming


def test_the_command_prints_the_address_of_grpc(tmp_path: Path) -> None:
    arguments = ("--engine", "scripted", "--port", "0", "--grpc-port", "0")
    with serving(tmp_path, *arguments) as (process, _):
        said = process.said
        with grpc.insecure_channel(said["grpc"]) as channel:
            stub = inference_pb2_grpc.InferenceStub(channel)
            frames = frames_of(stub.Generate(HI, timeout=PATIENCE_S))

    assert text_of(frames).startswith("The quick brown fox")


def test_a_signal_ends_the_server_and_its_calls_in_good_order(tmp_path: Path) -> None:
    text = MANIFEST.replace("10ms", "60s").replace("port = 0", "port = 0\ngrpc_port = 0")
    (tmp_path / "Torvyn.toml").write_text(text)
    with serving(tmp_path) as (process, _), grpc.insecure_channel(process.said["grpc"]) as channel:
        call = inference_pb2_grpc.InferenceStub(channel).Generate(HI, timeout=PATIENCE_S)
        next(call)
        process.send_signal(signal.SIGTERM)
        error, end = frames_of(call)[-2:]
        assert process.wait(10) == 143

    assert isinstance(error, ErrorFrame)
    assert error.code == "transport.shutting-down"
    assert isinstance(end, EndFrame)


@pytest.mark.parametrize("package", ["grpc_reflection", "grpc_health", "google.protobuf"])
def test_a_package_that_is_missing_is_named(tmp_path: Path, package: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from torvyn._cli import main; main()"
    arguments = ("serve", "--engine", "scripted", "--port", "0", "--grpc-port", "0")
    command = [sys.executable, "-c", code, *arguments, "--format", "json"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=False, env=os.environ
    )

    assert done.returncode == 3
    (error,) = json.loads(done.stdout or done.stderr)["problems"]
    assert error["code"] == "transport.package-missing"
    assert "grpcio-reflection" in error["hint"]
