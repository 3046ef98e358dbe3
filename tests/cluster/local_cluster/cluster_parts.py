"""What the tests of a local cluster need, and on which addresses its processes listen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import missing

LISTEN = "0A"
"""The state of a socket that accepts connections, in /proc/net/tcp."""


needs_ray = missing.needs_package("ray")


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """The addresses and ports on which the processes accept connections."""
    links = {link for pid in pids for link in _descriptors(pid)}
    return {
        address
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
        for fields in [line.split()]
        if fields[3] == LISTEN and f"socket:[{fields[9]}]" in links
        for address in [_address(fields[1])]
    }


def _descriptors(pid: int) -> Iterator[str]:
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            yield os.readlink(path)


def _address(text: str) -> tuple[str, int]:
    """`0100007F:1F90` is 127.0.0.1:8080; each group of 32 bits is in the order of the machine."""
    host, port = text.split(":")
    words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
    found = ip_address(b"".join(words))
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found), int(port, 16)
