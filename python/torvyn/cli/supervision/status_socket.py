"""Answers `torvyn top`: a Unix socket that gives every caller the state of a running flow.

One answer is one JSON document; what a caller sends is not read.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.resources import read_resources, resident_bytes
from torvyn.cli.supervision.unix_server import UnixServer

if TYPE_CHECKING:
    from torvyn.reactor import Flow
    from torvyn.reactor.health import HealthCheck

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
