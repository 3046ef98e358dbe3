"""gRPC as bytes: prefixes, metadata, deadlines, one port with HTTP."""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from grpc_client import HI, answering, calling, generate, grpc, serving_calls, text_of
from live_server import PATIENCE_S, Served, served, wait_for
from raw_call import RawCall, prefixed
from watched_engines import Watched

from torvyn.engine import Scripted
from torvyn.v1 import inference_pb2_grpc

ASKED = prefixed(HI.SerializeToString())
INTERNAL, UNIMPLEMENTED, EXHAUSTED, LATE, INVALID = "13", "12", "8", "4", "3"


def rejected(server: Served, data: bytes, **head: str) -> RawCall:
    call = RawCall(server.grpc, **head)
    call.send(data, is_last=True)
    return call.read_to_end()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", INTERNAL),
        (ASKED[:3], INTERNAL),
        (ASKED[:-1], INTERNAL),
        (prefixed(b"x", flag=1), INTERNAL),
        (prefixed(b"x", flag=7), INTERNAL),
        (b"\0\xff\xff\xff\xff", EXHAUSTED),
        (prefixed(b"\xff"), INVALID),
    ],
)
def test_a_broken_message_gets_a_status_and_no_engine(data: bytes, status: str) -> None:
    engine = Watched()
    with serving_calls(engine) as server:
        call = rejected(server, data)

    assert (call.headers[":status"], call.status) == ("200", status)
    assert not call.trailers, "the head is all there is"
    assert not engine.has_begun.is_set()


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_message_may_arrive_in_any_pieces(size: int) -> None:
    with serving_calls(Scripted("Hello")) as server:
        call = RawCall(server.grpc)
        for at in range(0, len(ASKED), size):
            call.send(ASKED[at : at + size], is_last=at + size >= len(ASKED))
        call.read_to_end()

    assert b"Hello" in call.data
    assert call.status == "0"


def test_a_compression_that_is_not_offered_is_unimplemented() -> None:
    with serving_calls(Scripted("a")) as server:
        call = rejected(server, prefixed(b"x", flag=1), grpc_encoding="gzip")

    assert call.status == UNIMPLEMENTED
    assert call.headers["grpc-accept-encoding"] == "identity"


def test_a_message_of_a_status_is_escaped() -> None:
    with serving_calls(Scripted("a")) as server:
        call = rejected(server, ASKED, **{":path": "/ü%/é\n"})

    assert call.status == UNIMPLEMENTED
    assert call.headers["grpc-message"].isascii()
    assert "does not exist" in unquote(call.headers["grpc-message"])


@pytest.mark.parametrize(("timeout", "status"), [("50m", LATE), ("1", INVALID), ("1x", INVALID)])
def test_the_server_keeps_the_deadline_of_a_call(timeout: str, status: str) -> None:
    engine = Watched(pause_s=60)
    with serving_calls(engine) as server:
        call = rejected(server, ASKED, grpc_timeout=timeout)
        requests = server.application.metrics.requests
        path = "/torvyn.v1.Inference/Generate"
        wait_for(lambda: sum(requests["GRPC", one, int(status)] for one in (path, "unknown")) == 1)

    assert call.status == status


def test_a_message_that_stays_incomplete_ends_the_call() -> None:
    with serving_calls(Scripted("a"), body_timeout_s=0.2) as server:
        call = RawCall(server.grpc)
        call.send(ASKED[:-1])
        call.read_to_end()

    assert call.status == LATE


def test_a_call_without_a_message_ends_in_time() -> None:
    with serving_calls(Scripted("a"), body_timeout_s=0.2) as server:
        assert RawCall(server.grpc).read_to_end().status == LATE


def test_a_cancelled_call_is_noticed_while_the_client_sends() -> None:
    engine = Watched(pause_s=60)
    with serving_calls(engine) as server:
        call = RawCall(server.grpc)
        call.send(ASKED)
        assert engine.has_begun.wait(PATIENCE_S)
        call.cancel()
        assert engine.was_left.wait(PATIENCE_S)


def test_a_client_that_grants_no_more_costs_less_than_48_kib_and_is_reset() -> None:
    engine = Watched(pause_s=0, token="y" * 1000)
    with serving_calls(engine, write_timeout_s=0.3) as server:
        call = rejected(server, ASKED)
        wait_for(lambda: not server.application.running.calls)

    assert call.reset is not None
    assert len(call.data) == 65535, "the first window"
    assert engine.made * 1000 - len(call.data) <= 48 * 1024


def test_one_port_speaks_http_and_grpc() -> None:
    with served(Scripted("Hello")) as server, calling(server) as stub:
        assert server.grpc == f"127.0.0.1:{server.port}"
        assert text_of(generate(stub)) == "Hello"
        assert page(server).status == 200
        assert text_of(generate(stub)) == "Hello"


def test_the_port_of_grpc_speaks_grpc_only() -> None:
    with served(Scripted("Hello"), grpc_port=0) as server, calling(server) as stub:
        port = int(server.grpc.rpartition(":")[2])
        assert port != server.port
        assert text_of(generate(stub)) == "Hello"
        assert [page(server).status, page(server, port=port).status] == [200, 404]
        counts = server.application.connection_metrics
        wait_for(lambda: counts()["torvyn_connections"] == 1)


def page(
    server: Served, method: str = "GET", path: str = "/healthz", port: int = 0, **head: str
) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port or server.port, timeout=PATIENCE_S)
    headers = {name.replace("_", "-"): value for name, value in head.items()}
    connection.request(method, path, b"", headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_grpc_over_http_1_is_refused() -> None:
    with served(Scripted("Hello")) as server:
        path = "/torvyn.v1.Inference/Generate"
        answer = page(server, "POST", path, content_type="application/grpc", te="trailers")

    assert answer.status == 415


def test_one_port_with_tls_chooses_by_alpn(tmp_path: Path) -> None:
    pytest.importorskip("trustme", reason="TLS is not tested: pip install trustme")
    from certificates import Files

    files = Files(tmp_path)
    trusted = grpc.ssl_channel_credentials(Path(files.trusted).read_bytes())
    context = ssl.create_default_context(cafile=files.trusted)
    with served(Scripted("Hello"), **files.settings) as server:
        with grpc.secure_channel(server.grpc, trusted) as channel:
            assert text_of(generate(inference_pb2_grpc.InferenceStub(channel))) == "Hello"
        secure = http.client.HTTPSConnection("127.0.0.1", server.port, context=context)
        secure.request("GET", "/healthz")
        assert secure.getresponse().status == 200
        secure.close()


def test_without_the_packages_a_call_is_told_what_to_install() -> None:
    code = (
        "import sys; sys.modules['google.protobuf'] = None\n"
        "sys.path[:0] = ['tests/transport', 'tests']\n"
        "from live_server import served; from raw_call import RawCall, prefixed\n"
        "from torvyn.engine import Scripted\n"
        "with served(Scripted('a')) as server:\n"
        "    call = RawCall(f'127.0.0.1:{server.port}'); call.send(prefixed(b''), is_last=True)\n"
        "    call.read_to_end(); print(call.status, server.grpc, call.headers['grpc-message'])\n"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=60, check=True, env=os.environ
    )

    assert done.stdout.startswith("12  ")
    assert "grpcio-reflection" in done.stdout


@pytest.mark.skipif(shutil.which("grpcurl") is None, reason="grpcurl is not installed")
def test_grpcurl_finds_and_calls_the_service() -> None:
    with answering(Scripted("Hello")) as (server, _):
        words = ["grpcurl", "-plaintext", "-d", '{"prompt": "Hi"}', server.grpc]
        command = [*words, "torvyn.v1.Inference/Generate"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)

    assert '"text": "Hello"' in done.stdout
