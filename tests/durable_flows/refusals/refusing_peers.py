"""The other side of each sink that may refuse elements: what it accepts, and what it never does."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import socket
import sqlite3
import struct
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scripted_server import ScriptedServer

from nats_server import NatsServer, add_stream, find_server, stored

Refusals = dict[str, Callable[[int], str | bytes]]


def reading(n: int) -> str:
    return json.dumps({"n": n})


class Peer:
    """A sink that is connected to it accepts `reading(n)`."""

    component: ClassVar[str]
    refusals: ClassVar[Refusals]
    """By kind: the payload of the element `n`, which it refuses for good."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.config: dict[str, Any] = {}
        self.refuse: str = ""
        """The kind that is tried."""
        self.start(stack)

    def start(self, stack: ExitStack) -> None:
        """Sets the config."""

    def delivered(self) -> list[int]:
        """The readings that it has accepted, in order."""
        raise NotImplementedError


NOT_JSON: Refusals = {
    "nan": lambda n: f'{{"n": {n}, "value": NaN}}',
    "no JSON": lambda n: f"reading {n}",
    "no UTF-8": lambda n: b"\xff%d" % n,
}


class Http(Peer):
    component = "http"
    refusals: ClassVar[Refusals] = {
        str(status): lambda n: json.dumps({"n": n, "bad": True}) for status in (400, 404, 413, 422)
    } | NOT_JSON

    def start(self, stack: ExitStack) -> None:
        self.server = ScriptedServer()
        stack.callback(self.server.close)
        self.server.rejects = self._status
        self.config = {"url": self.server.url, "max_batch": 5}

    def _status(self, body: bytes) -> int | None:
        return int(self.refuse) if b'"bad"' in body else None

    def delivered(self) -> list[int]:
        bodies = [json.loads(body) for body in self.server.accepted]
        return [each["n"] for body in bodies for each in body]


class Mqtt(Peer):
    component = "mqtt"
    refusals: ClassVar[Refusals] = {
        "topic": lambda n: reading(n) + " " * 0x90,
        "format": lambda n: reading(n) + " " * 0x99,
        "size": lambda n: reading(n) + " " * 3000,
        "no text for the topic": lambda n: json.dumps({"n": "a/+/#"}),
    }

    def start(self, stack: ExitStack) -> None:
        self.got: list[int] = []
        listener = socket.create_server(("127.0.0.1", 0))
        stack.callback(listener.close)
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()
        url = f"mqtt://127.0.0.1:{listener.getsockname()[1]}"
        self.config = {"url": url, "topic": "t/{n}"}

    def delivered(self) -> list[int]:
        return self.got

    def _serve(self, listener: socket.socket) -> None:
        """A broker of MQTT 5 that takes packets of 2,000 bytes and answers with reasons."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with contextlib.suppress(OSError, EOFError), connection:
                    self._talk(connection.makefile("rb"), connection)

    def _talk(self, stream: Any, connection: socket.socket) -> None:
        while head := stream.read(1):
            body = stream.read(_varint(stream))
            kind = head[0] >> 4
            if kind == 1:
                properties = b"\x27" + struct.pack(">I", 2000)
                answer = b"\x00\x00" + bytes([len(properties)]) + properties
                connection.sendall(b"\x20" + bytes([len(answer)]) + answer)
            elif kind == 3:
                connection.sendall(b"\x40\x04" + self._publish(body))
            elif kind == 12:
                connection.sendall(b"\xd0\x00")
            elif kind == 14:
                return

    def _publish(self, body: bytes) -> bytes:
        end = 2 + int.from_bytes(body[:2], "big")
        payload = body[end + 3 + body[end + 2] :]
        reason = len(payload) - len(payload.rstrip(b" "))
        if not reason:
            self.got.append(json.loads(payload)["n"])
        return body[end : end + 2] + bytes([reason, 0])


def _varint(stream: Any) -> int:
    value = shift = 0
    while True:
        (byte,) = stream.read(1)
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value


class Sqlite(Peer):
    component = "sqlite"
    refusals: ClassVar[Refusals] = NOT_JSON | {
        "constraint": lambda n: json.dumps({"n": -n - 1}),
        "too large a number": lambda n: json.dumps({"n": 2**70 + n}),
        "an unknown column": lambda n: json.dumps({"n": n, "other": 1}),
    }

    def start(self, stack: ExitStack) -> None:
        path = str(self.folder / "out.db")
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE elements (n INTEGER CHECK (n >= 0))")
        self.config = {"path": path}

    def delivered(self) -> list[int]:
        with contextlib.closing(sqlite3.connect(self.config["path"])) as database:
            return [n for (n,) in database.execute("SELECT n FROM elements ORDER BY rowid")]


class JsonLines(Peer):
    component = "file"
    refusals: ClassVar[Refusals] = NOT_JSON

    def start(self, stack: ExitStack) -> None:
        self.config = {"path": str(self.folder / "out.jsonl"), "format": "jsonl"}

    def delivered(self) -> list[int]:
        return [json.loads(line)["n"] for line in Path(self.config["path"]).open()]


class Csv(Peer):
    component = "csv"
    refusals: ClassVar[Refusals] = NOT_JSON | {
        "an unknown column": lambda n: json.dumps({"n": n, "other": 1})
    }

    def start(self, stack: ExitStack) -> None:
        self.config = {"path": str(self.folder / "out.csv"), "columns": ["n"]}

    def delivered(self) -> list[int]:
        return [int(line) for line in Path(self.config["path"]).read_text().split()[1:]]


class Lines(Peer):
    """What it is sent, as lines."""

    refusals: ClassVar[Refusals] = NOT_JSON

    def read_from(self, receive: Callable[[], bytes]) -> None:
        self.data = b""

        def run() -> None:
            with contextlib.suppress(OSError):
                while part := receive():
                    self.data += part

        threading.Thread(target=run, daemon=True).start()

    def delivered(self) -> list[int]:
        return [json.loads(line)["n"] for line in self.data.splitlines()]


class Tcp(Lines):
    component = "tcp"

    def start(self, stack: ExitStack) -> None:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        connections: list[socket.socket] = []

        def receive() -> bytes:
            if not connections:
                connections.append(listener.accept()[0])
            return connections[0].recv(65536)

        self.read_from(receive)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.config = {"address": address, "format": "jsonl"}


class Udp(Lines):
    component = "udp"
    refusals: ClassVar[Refusals] = {"size": lambda n: f"{n}" + "x" * 70_000}

    def start(self, stack: ExitStack) -> None:
        receiver = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        receiver.bind(("127.0.0.1", 0))
        self.read_from(lambda: receiver.recv(65536))
        self.config = {"address": f"127.0.0.1:{receiver.getsockname()[1]}"}


class Serial(Lines):
    component = "serial"

    def start(self, stack: ExitStack) -> None:
        pytest.importorskip("serialx")
        ours, theirs = pty.openpty()
        stack.callback(os.close, theirs)
        stack.callback(os.close, ours)
        tty.setraw(theirs)
        self.read_from(lambda: os.read(ours, 65536))
        self.config = {"port": os.ttyname(theirs), "format": "jsonl"}


class Modbus(Peer):
    component = "modbus"
    refusals: ClassVar[Refusals] = NOT_JSON | {
        "text for a number": lambda n: json.dumps({"n": f"x{n}"}),
        "too large a number": lambda n: json.dumps({"n": 2**40 + n}),
        "refused by the device": lambda n: json.dumps({"n": n, "missing": 1}),
    }

    def start(self, stack: ExitStack) -> None:
        pytest.importorskip("pymodbus")
        from modbus_server import ModbusServer

        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.server = ModbusServer(port)
        self.server.start()
        stack.callback(self.server.stop)
        registers = [
            {"name": "missing", "address": 900, "type": "uint16"},
            {"name": "n", "address": 0, "type": "uint16"},
        ]
        self.config = {"address": f"127.0.0.1:{port}", "registers": registers}

    def delivered(self) -> list[int]:
        raise pytest.skip.Exception("a register has its last value only")


class Nats(Peer):
    component = "nats"
    refusals: ClassVar[Refusals] = {
        "larger than the stream takes": lambda n: json.dumps({"n": n, "x": "x" * 2000}),
        "larger than the server takes": lambda n: json.dumps({"n": n, "x": "x" * 1024 * 1024}),
        "no text for the subject": lambda n: json.dumps({"n": "a.*.>"}),
    }

    def start(self, stack: ExitStack) -> None:
        if find_server() is None:
            pytest.skip("needs nats-server: make test-deps")
        pytest.importorskip("nats")
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.server = NatsServer(port, self.folder / "nats")
        self.server.start()
        stack.callback(self.server.stop)
        add_stream(self.server, max_msg_size=1000)
        self.config = {"servers": self.server.url, "subject": "s.{n}", "jetstream": True}

    def delivered(self) -> list[int]:
        return [json.loads(text)["n"] for text in stored(self.server)]


PEERS: tuple[type[Peer], ...] = (
    Http, Mqtt, Sqlite, JsonLines, Csv, Tcp, Udp, Serial, Modbus, Nats
)  # fmt: skip
ACCEPT_EVERYTHING = {"console", "response", "null", "collect"}
"""Sinks that take any element."""


@contextlib.contextmanager
def connected(peer: type[Peer], folder: Path, kind: str) -> Iterator[Peer]:
    with ExitStack() as stack:
        made = peer(folder, stack)
        made.refuse = kind
        yield made
