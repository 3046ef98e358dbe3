"""Attacks on the server: it refuses them, stays small, and answers others afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hostile_http
import pytest
from live_server import served

from torvyn.engine import Scripted

MORE_MIB = 32 * 2
"""Twice what must hold, in a process that runs all the other tests as well."""


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.parametrize("attack", hostile_http.ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_refused_and_costs_little(attack: Callable[[int], bytes]) -> None:
    with served(Scripted("a")) as server:
        before_mib = resident_mib()
        got = attack(server.port)
        grown_mib = resident_mib() - before_mib
        after = hostile_http.exchange(
            server.port,
            b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + hostile_http.HOST + b"\r\n",
        )

    assert b" 200 " not in got
    assert b'"flows"' not in got
    assert grown_mib < MORE_MIB
    assert b" 200 " in after
