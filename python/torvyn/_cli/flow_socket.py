"""How other commands reach a running flow: Unix sockets in a folder that only its user can enter.

`torvyn top` reads one socket, which gives every caller the state of the flow as a JSON document.
`torvyn reload` sends requests to another one: a request is one line of JSON, and so is its answer.
Whoever can connect is the user of the process. Each socket is served by a thread; a flow runs
without them if they cannot be created.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from torvyn._io.resources import read_resources, resident_bytes
from torvyn._io.restart import keep_running
from torvyn.errors import TorvynError

if TYPE_CHECKING:
    from torvyn._flow.flow import Flow
    from torvyn._flow.health import HealthCheck


class UnixServer:
    """A context manager: callers are answered while the block runs."""

    ending = "sock"
    """Of the name of its file."""
    timeout_s: float
    """For reading from and sending to one caller."""

    def __init__(self, number: int | None = None) -> None:
        """`number`: of a flow whose process runs several."""
        name = str(os.getpid()) if number is None else f"{os.getpid()}-{number}"
        self._path = own_folder() / f"{name}.{self.ending}"
        self._socket: socket.socket | None = None
        self._closed = threading.Event()

    def answer(self, connection: socket.socket) -> None:
        """Answers one caller."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._open()
        except (OSError, ValueError) as error:
            logger.debug("other commands cannot reach this flow: %s", error)
        return self

    def _open(self) -> None:
        make_private(self._path.parent)
        if len(os.fsencode(self._path)) > _LONGEST_PATH:
            raise ValueError(f"the path {self._path} is too long for a socket")
        with suppress(FileNotFoundError):
            # Left by a process that had the same number.
            self._path.unlink()
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.bind(str(self._path))
            made.listen()
        except OSError:
            made.close()
            raise
        self._socket = made
        name = f"torvyn-{self.ending}"
        loop = partial(keep_running, partial(self._serve, made), self._closed.wait)
        threading.Thread(target=loop, name=name, daemon=True).start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()
        if self._socket is not None:
            with suppress(OSError):
                # Ends the `accept` of the other thread, which `close` does not.
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            with suppress(OSError):
                self._path.unlink()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(self.timeout_s)
                self.answer(connection)


def make_private(folder: Path) -> None:
    """Creates a folder for this user only; raises if somebody else could write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    is_private = not found.st_mode & 0o022 and found.st_uid == os.getuid()
    if not stat.S_ISDIR(found.st_mode) or not is_private:
        raise ValueError(f"others may write to {folder}")


Command = Callable[[dict[str, Any]], dict[str, Any]]

ENDING: Final = "control"

_MOST_BYTES: Final = 1 << 20


class ControlSocket(UnixServer):
    ending = ENDING
    timeout_s = 30.0

    def __init__(self, commands: Mapping[str, Command], number: int | None = None) -> None:
        super().__init__(number)
        self._commands: Final = commands

    def answer(self, connection: socket.socket) -> None:
        connection.sendall(json.dumps(self._answer(_line(connection))).encode() + b"\n")

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            act = self._commands[request["command"]]
        except (ValueError, KeyError, TypeError):
            return {"errors": [{"code": "cli.bad-value", "message": "unknown request"}]}
        try:
            return act(request)
        except TorvynError as error:
            return {"errors": [each.to_dict() for each in error.diagnostics]}
        except Exception as error:
            # The flow goes on; the person who asked learns why nothing happened.
            return {"errors": [{"code": "cli.bug", "message": f"{type(error).__name__}: {error}"}]}


def request(path: Path, command: str, **fields: Any) -> dict[str, Any]:
    """Sends a request to the process with this socket; raises `OSError` or `ValueError`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(120.0)
        sock.connect(str(path))
        sock.sendall(json.dumps({"command": command, **fields}).encode() + b"\n")
        answer = json.loads(_line(sock))
    if not isinstance(answer, dict):
        raise ValueError("the answer is not an object")
    return answer


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n") and len(received) < _MOST_BYTES:
        chunk = connection.recv(1 << 16)
        if not chunk:
            break
        received += chunk
    return received


_TIMEOUT_S: Final = 2.0

_READ_BYTES: Final = 1 << 20

_MOST_ANSWER_BYTES: Final = 64 << 20


def running_flows() -> list[dict[str, Any]]:
    """The documents of all flows that this user may ask, by process and name."""
    return [document for document, _ in flows_and_sockets()]


def flows_and_sockets() -> list[tuple[dict[str, Any], Path]]:
    """The documents of all flows, and where they take requests."""
    found = ((ask(path), path.with_suffix(f".{ENDING}")) for path in _sockets())
    known = [(document, path) for document, path in found if document is not None]
    return sorted(known, key=lambda each: (each[0]["pid"], each[0].get("flow", "")))


def ask(path: Path) -> dict[str, Any] | None:
    """The document of one flow; None if it does not answer."""
    chunks, length = [], 0
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_TIMEOUT_S)
            sock.connect(str(path))
            while (chunk := sock.recv(_READ_BYTES)) and length < _MOST_ANSWER_BYTES:
                chunks.append(chunk)
                length += len(chunk)
        document = json.loads(b"".join(chunks))
    except ConnectionRefusedError:
        # Its process was killed: nobody else will remove the files.
        for left in (path, path.with_suffix(f".{ENDING}")):
            with suppress(OSError):
                left.unlink()
        return None
    except (OSError, ValueError):
        return None
    is_known = isinstance(document, dict) and isinstance(document.get("pid"), int)
    return document if is_known else None


def statuses_of(pid: int) -> list[dict[str, Any]]:
    """The documents of the flows of a process."""
    return [document for path in _of(pid, _sockets()) if (document := ask(path)) is not None]


def control_socket_of(pid: int) -> Path:
    """Where the process takes requests, or one of its flows does."""
    return next(_of(pid, _sockets(ENDING)), own_folder() / f"{pid}.{ENDING}")


def _of(pid: int, paths: Iterator[Path]) -> Iterator[Path]:
    """Those of a process; several flows of one have numbers."""
    return (path for path in paths if path.stem.partition("-")[0] == str(pid))


def _sockets(ending: str = "sock") -> Iterator[Path]:
    """Of this user, and of the services that systemd runs."""
    roots = [Path(os.environ.get("XDG_RUNTIME_DIR") or "/run"), Path("/run")]
    folders = {own_folder(), temporary_folder()}
    for root in roots:
        with suppress(OSError):
            folders.update((root / "torvyn", *root.glob("torvyn-*")))
    for folder in sorted(folders):
        with suppress(OSError):
            yield from sorted(folder.glob(f"*.{ending}"))


VERSION: Final = 1
"""Of the document."""


class StatusSocket(UnixServer):
    timeout_s = 2.0

    def __init__(self, flow: Flow, check: HealthCheck, number: int | None = None) -> None:
        super().__init__(number)
        self._flow = flow
        self._check = check
        self._started_s = time.time()

    def answer(self, connection: socket.socket) -> None:
        connection.sendall(json.dumps(self.document(), default=str).encode())

    def document(self) -> dict[str, Any]:
        statistics, resources = self._flow.statistics, read_resources()
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "flow": self._flow.name,
            "started": self._started_s,
            "health": asdict(self._check.check(statistics)),
            "cpu_s": time.process_time(),
            "resident_bytes": resident_bytes(),
            "memory_limit_bytes": resources.limits.memory_bytes,
            "statistics": statistics.to_dict(),
            "returned": self._returned(),
        }

    def _returned(self) -> dict[str, Any] | None:
        """The last component that took its place again because a new one failed."""
        found = [report for report in self._flow.swaps if report.is_return]
        if not found:
            return None
        return {"count": len(found), "node": found[-1].node, "error": found[-1].error}


logger = logging.getLogger("torvyn.cli")

_LONGEST_PATH: Final = 107
"""The kernel's limit for the path of a socket."""


def own_folder() -> Path:
    """Where this process puts its sockets. systemd creates a folder for a service."""
    if given := os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        return Path(given)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime, "torvyn")
    return temporary_folder()


def temporary_folder() -> Path:
    """For users without a runtime folder."""
    import tempfile

    return Path(tempfile.gettempdir(), f"torvyn-{os.getuid()}")
