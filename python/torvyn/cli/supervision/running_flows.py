"""Finds the flows that run on this machine, by their status sockets, and asks them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from torvyn.cli.supervision.control_socket import ENDING
from torvyn.cli.supervision.unix_server import own_folder, temporary_folder

_TIMEOUT_S: Final = 2.0
_READ_BYTES: Final = 1 << 20
_MOST_BYTES: Final = 64 << 20


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
            while (chunk := sock.recv(_READ_BYTES)) and length < _MOST_BYTES:
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
