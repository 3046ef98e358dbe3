"""Which guarantees hold when clients do not read, disconnect or attack, or the server stops?"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import time
from pathlib import Path

from benches.harness import percentile
from benches.load import connected
from benches.open_streams import OWN, allow_files, opened, serving
from benches.reliability.case import Case, Measurement
from benches.reliability.cases.inference import Talker
from benches.reliability.guests import load_test_module
from benches.server_process import ServerProcess
from benches.unread_streams import RECEIVE_BYTES

CLIENTS, STREAMS, LEAVES, WRITE_S, TIMEOUT_S = 1_000, 200, 60, 3.0, 30.0


def unread_kib(rounds: int) -> Measurement:
    """The memory of the server and the kernel for clients that never read, until all are closed."""
    allow_files(2 * CLIENTS)
    samples = []
    for _ in range(rounds):
        flags = ("--tokens", "200000", "--write-timeout", str(WRITE_S))
        with serving(*flags) as server, contextlib.ExitStack() as stack:
            _send_requests(server, stack, 50)
            stack.close()
            _until(lambda server=server: _streams(server) == 0)
            before = server.resident_bytes() + _socket_bytes()
            _send_requests(server, stack, CLIENTS)
            peak = _peak(server)
            samples.append((peak - before) / CLIENTS / 1024)
    return Measurement(
        max(samples), samples, f"{CLIENTS:,} clients, all closed within {TIMEOUT_S:g} s"
    )


def _send_requests(server: ServerProcess, stack: contextlib.ExitStack, clients: int) -> None:
    for sock in stack.enter_context(opened(server.port, clients, RECEIVE_BYTES)):
        sock.sendall(OWN.bytes(server.port))


def _peak(server: ServerProcess) -> int:
    """The peak until the last client is closed."""
    peak, until = 0, time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        peak = max(peak, server.resident_bytes() + _socket_bytes())
        if not _streams(server):
            return peak
        time.sleep(0.05)
    raise AssertionError("not all clients were closed")


def _streams(server: ServerProcess) -> int:
    with connected(server.port) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = b""
        while chunk := sock.recv(65536):
            got += chunk
    line = next(line for line in got.splitlines() if line.startswith(b"torvyn_streams{"))
    return int(line.rpartition(b" ")[2])


def _socket_bytes() -> int:
    """The memory of TCP on this machine, both ends; the reader's share is small."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            return int(line.split()[-1]) * 4096
    return 0


def _until(condition: object) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not condition():  # type: ignore[operator]
        if time.monotonic() > until:
            raise AssertionError("the condition was not met")
        time.sleep(0.02)


def stop_ms(rounds: int) -> Measurement:
    """From a client's close or reset, at a random token, until the engine stops."""
    kit = load_test_module("transport/live_server.py")
    chance, worst, late = random.Random(11), [], 0
    for _ in range(rounds):
        delays = []
        for number in range(LEAVES):
            engine = Talker()
            with kit.served(engine) as server:
                sock = server.ask(b'{"prompt": "Hi"}')
                got, tokens = b"", chance.choice([0, 0, 1, 2, 10, 40])
                while got.count(b'"delta"') < tokens:
                    got += sock.recv(65536)
                engine.started.wait(TIMEOUT_S)
                if number % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                began_s = time.perf_counter()
                sock.close()
                late += not engine.closed.wait(TIMEOUT_S)
                delays.append((engine.closed_s - began_s) * 1e3)
        worst.append(percentile(delays, 0.99))
    if late:
        raise AssertionError(f"{late} engines did not stop")
    return Measurement(max(worst), worst, f"p99 of {LEAVES} clients per round, over real sockets")


def unfinished(rounds: int) -> Measurement:
    """Clients that got no last frame when the server stopped."""
    missing = []
    for _ in range(rounds):
        with (
            serving("--rate", "50", "--tokens", "100000", "--grace", "2") as server,
            opened(server.port, STREAMS) as socks,
        ):
            for sock in socks:
                sock.sendall(OWN.bytes(server.port))
            for sock in socks:
                _read_until(sock, b'"delta"')
            server.end()
            ends = [_read_until(sock, b"\r\n0\r\n\r\n") for sock in socks]
            missing.append(sum(b'"type":"end"' not in end for end in ends))
    return Measurement(
        float(max(missing)), [float(count) for count in missing], f"{STREAMS} streams"
    )


def _read_until(sock: socket.socket, mark: bytes) -> bytes:
    got = b""
    sock.settimeout(TIMEOUT_S)
    with contextlib.suppress(OSError):
        while mark not in got and (chunk := sock.recv(65536)):
            got += chunk
    return got


def attacked_mib(rounds: int) -> Measurement:
    """The growth of the server's resident memory over all attacks."""
    hostile = load_test_module("faults/hostile_http.py")
    allow_files(2 * CLIENTS)
    samples = []
    with serving("--tokens", "10") as server:
        hostile.exchange(server.port, b"GET /healthz HTTP/1.1\r\n" + hostile.HOST + b"\r\n")
        before = server.resident_bytes()
        for _ in range(rounds):
            for attack in hostile.ATTACKS:
                got = attack(server.port)
                samples.append((server.resident_bytes() - before) / 2**20)
                if b" 200 " in got or b'"flows"' in got:
                    raise AssertionError(f"{attack.__name__} was answered")
    names = ", ".join(attack.__name__.replace("_", " ") for attack in hostile.ATTACKS)
    return Measurement(max(samples), samples, names)


ATTACKS = "large bodies and headers, two lengths, slow headers, HTTP/2 resets"
CASES = (
    Case("slow-clients", "clients that never read", "1,000 of them", 96, "KiB each", unread_kib),
    Case("client-leaves", "a client disconnects", "close or reset, any token", 100, "ms", stop_ms),
    Case("sigterm", "SIGTERM", "200 open streams", 0, "without a last frame", unfinished),
    Case("attacks", "attacks on the server", ATTACKS, 32, "MiB more", attacked_mib),
)
