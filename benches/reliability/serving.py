"""What holds when clients do not read, leave, attack, or when the server is told to end?"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import socket
import struct
import sys
import time
from pathlib import Path
from types import ModuleType

from benches.harness import percentile
from benches.load import connected
from benches.open_streams import OWN, allow_files, opened, serving
from benches.reliability.inference import Talker
from benches.reliability.line import LeftOut, Line, Measured
from benches.reliability.setting import TESTS
from benches.server_process import ServerProcess

CLIENTS, STREAMS, LEAVES, WRITE_S, PATIENCE_S = 1_000, 200, 60, 3.0, 30.0


def unread_kib(rounds: int) -> Measured:
    """The server's memory and the kernel's for a thousand that never read, each until it is cut."""
    _needs_granian()
    allow_files(2 * CLIENTS)
    samples = []
    for _ in range(rounds):
        flags = ("--tokens", "200000", "--write-timeout", str(WRITE_S))
        with serving(*flags) as server, contextlib.ExitStack() as stack:
            _asked(server, stack, 50)
            stack.close()
            _until(lambda server=server: _streams(server) == 0)
            before = server.resident_bytes() + _socket_bytes()
            _asked(server, stack, CLIENTS)
            peak = _peak(server)
            samples.append((peak - before) / CLIENTS / 1024)
    return Measured(max(samples), samples, f"{CLIENTS:,} clients, all cut within {PATIENCE_S:g} s")


def _asked(server: ServerProcess, stack: contextlib.ExitStack, clients: int) -> None:
    for _ in range(clients):
        sock = stack.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", server.port))
        sock.sendall(OWN.bytes(server.port))


def _peak(server: ServerProcess) -> int:
    """The most that was taken until the last of them was cut."""
    peak, until = 0, time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        peak = max(peak, server.resident_bytes() + _socket_bytes())
        if not _streams(server):
            return peak
        time.sleep(0.05)
    raise AssertionError("not all of them were cut")


def _streams(server: ServerProcess) -> int:
    with connected(server.port) as sock:
        sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        got = b""
        while part := sock.recv(65536):
            got += part
    line = next(line for line in got.splitlines() if line.startswith(b"torvyn_streams{"))
    return int(line.rpartition(b" ")[2])


def _socket_bytes() -> int:
    """What TCP holds on this machine, both ends; the reader's is small."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        if line.startswith("TCP:"):
            return int(line.split()[-1]) * 4096
    return 0


def _until(condition: object) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():  # type: ignore[operator]
        if time.monotonic() > until:
            raise AssertionError("it never came")
        time.sleep(0.02)


def left_ms(rounds: int) -> Measured:
    """From a client's close or reset, at a random token or before the first, to the engine."""
    kit = _loaded(TESTS / "transport" / "live_server.py", "live_server")
    chance, worst, late = random.Random(11), [], 0
    for _ in range(rounds):
        delays = []
        for number in range(LEAVES):
            engine = Talker()
            with kit.served(engine) as server:
                sock = server.ask(b'{"prompt": "Hi"}')
                got, wanted = b"", chance.choice([0, 0, 1, 2, 10, 40])
                while got.count(b'"delta"') < wanted:
                    got += sock.recv(65536)
                engine.begun.wait(PATIENCE_S)
                if number % 2:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                began_s = time.perf_counter()
                sock.close()
                late += not engine.left.wait(PATIENCE_S)
                delays.append((engine.left_s - began_s) * 1e3)
        worst.append(percentile(delays, 0.99))
    if late:
        raise AssertionError(f"{late} engines never heard of it")
    return Measured(max(worst), worst, f"p99 of {LEAVES} leaves a round, over real sockets")


def unfinished(rounds: int) -> Measured:
    """Clients of a server that was told to end which got no last frame."""
    _needs_granian()
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
    return Measured(float(max(missing)), [float(one) for one in missing], f"{STREAMS} streams")


def _read_until(sock: socket.socket, mark: bytes) -> bytes:
    got = b""
    sock.settimeout(PATIENCE_S)
    with contextlib.suppress(OSError):
        while mark not in got and (part := sock.recv(65536)):
            got += part
    return got


def attacked_mib(rounds: int) -> Measured:
    """What the server's resident set grew by, over all attacks."""
    _needs_granian()
    hostile = _loaded(TESTS / "faults" / "hostile_http.py", "hostile_http")
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
    return Measured(max(samples), samples, names)


def _needs_granian() -> None:
    if importlib.util.find_spec("granian") is None:
        raise LeftOut("granian is not installed")


def _loaded(file: Path, name: str) -> ModuleType:
    """A file of the tests, which use it as well."""
    _needs_granian()
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


ATTACKS = "bodies, headers, two lengths, slow heads, HTTP/2 resets"
LINES = (
    Line("slow-clients", "clients that never read", "1,000 of them", 96, "KiB each", unread_kib),
    Line("client-leaves", "a client leaves", "close or reset, any token", 100, "ms", left_ms),
    Line("sigterm", "SIGTERM", "200 open streams", 0, "without a last frame", unfinished),
    Line("attacks", "attacks on the server", ATTACKS, 32, "MiB more", attacked_mib),
)
