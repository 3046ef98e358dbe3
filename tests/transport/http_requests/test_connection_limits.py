"""Crowds of connections: they are closed for others, and never keep out a caller with a key."""

from __future__ import annotations

import re
import resource
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from live_server import PATIENCE_S, Served, served, wait_for

from torvyn._io.resources import raise_open_files
from torvyn.engine import Scripted
from torvyn.transport.access.key_file import edit

CROWD = 2_100
ONE_ADDRESS = ("127.0.0.1",)
MANY_ADDRESSES = tuple(f"127.0.0.{number}" for number in range(2, 102))
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
HALF_A_BODY = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
ANSWERED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def open_files() -> Iterator[None]:
    """Both ends of every connection of the crowd are open files of this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * CROWD + 500
    if limits[1] != resource.RLIM_INFINITY and limits[1] < needed:
        pytest.skip(f"a crowd needs {needed} open files; raise the hard limit (`ulimit -Hn`)")
    raise_open_files()
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def keyed_settings(tmp_path: Path) -> dict[str, Any]:
    with edit(tmp_path / "keys.json") as file:
        key = file.add("caller", scope="admin")
    (tmp_path / "key").write_text(key)
    return {"keys": str(tmp_path / "keys.json")}


@contextmanager
def crowd(server: Served, addresses: tuple[str, ...], sent: bytes) -> Iterator[list[socket.socket]]:
    """Connections that send this, and then nothing."""
    with ExitStack() as stack:
        socks = []
        for number in range(CROWD):
            sock = stack.enter_context(socket.socket())
            sock.settimeout(PATIENCE_S)
            sock.bind((addresses[number % len(addresses)], 0))
            sock.connect(("127.0.0.1", server.port))
            sock.sendall(sent)
            socks.append(sock)
        yield socks


def ask(server: Served, tmp_path: Path, path: str = "/v1/models") -> str:
    headers = {"Authorization": f"Bearer {(tmp_path / 'key').read_text()}"}
    request = urllib.request.Request(server.url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("addresses", [ONE_ADDRESS, MANY_ADDRESSES], ids=["one", "many"])
@pytest.mark.parametrize("sent", [b"", HTTP2, HALF_A_BODY, ANSWERED], ids=len)
def test_a_crowd_without_keys_does_not_keep_out_a_caller_with_one(
    keyed_settings: dict[str, Any], tmp_path: Path, addresses: tuple[str, ...], sent: bytes
) -> None:
    with served(Scripted("a"), **keyed_settings) as server, crowd(server, addresses, sent):
        assert '"chat"' in ask(server, tmp_path)
        metrics = ask(server, tmp_path, "/metrics")

    found = dict(re.findall(r"^(torvyn_connections\w*) (\d+)$", metrics, re.MULTILINE))
    counts = {name.removeprefix("torvyn_connections"): int(n) for name, n in found.items()}
    most = 1024 if addresses == ONE_ADDRESS else 2048 * 3 // 4
    assert counts[""] <= most + 1
    assert counts["_evicted_total"] >= CROWD - most
    assert counts["_refused_total"] == 0


def test_a_caller_with_a_key_keeps_its_connection_in_a_crowd(
    keyed_settings: dict[str, Any], tmp_path: Path
) -> None:
    key = (tmp_path / "key").read_text().encode()
    head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n" % key
    with served(Scripted("a"), **keyed_settings) as server, server.connect() as sock:
        sock.sendall(head)
        assert b"200 OK" in sock.recv(65536)
        with crowd(server, MANY_ADDRESSES, HTTP2):
            sock.sendall(head)
            assert b"200 OK" in sock.recv(65536)


def test_a_websocket_with_a_key_stays_open_in_a_crowd(
    keyed_settings: dict[str, Any], tmp_path: Path
) -> None:
    from websockets.sync import client

    headers = {"Authorization": f"Bearer {(tmp_path / 'key').read_text()}"}
    with served(Scripted("a"), **keyed_settings) as server:
        address = f"ws://127.0.0.1:{server.port}/v1/ws"
        connected = client.connect(address, additional_headers=headers)
        with connected as sock, crowd(server, MANY_ADDRESSES, ANSWERED):
            sock.send('{"type": "ping"}')
            assert "pong" in sock.recv(PATIENCE_S)


def test_an_answer_is_not_cut_for_a_crowd_on_a_server_without_keys() -> None:
    with served(Scripted("one two", delay=0.3), max_streams=1) as server:
        sock = server.ask(b'{"prompt": "Hi"}')
        assert b"200 OK" in sock.recv(65536)
        with crowd(server, ONE_ADDRESS, b""):
            got = b""
            while b'"end"' not in got:
                got += sock.recv(65536)
        sock.close()
    assert b"two" in got


def test_an_http2_connection_without_a_request_is_closed_although_it_answers_pings() -> None:
    with served(Scripted("a"), head_timeout_s=0.2) as server, server.connect() as sock:
        sock.sendall(HTTP2)
        got = b""
        while part := sock.recv(65536):
            got += part
    assert b"\7\0\0\0\0\0" in got, "no GOAWAY"


def test_the_settings_are_the_limits() -> None:
    limits = {"max_connections": 20, "max_connections_per_address": 5}
    with served(Scripted("a"), **limits) as server, crowd(server, ONE_ADDRESS, b""):
        counts = server.application.connection_metrics
        wait_for(lambda: counts()["torvyn_connections"] == 5)
        wait_for(lambda: counts()["torvyn_connections_evicted_total"] == CROWD - 5)
