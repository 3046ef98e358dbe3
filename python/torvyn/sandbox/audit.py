"""The audit: what the guests of a flow were granted when they started and denied while they ran.

One JSON object a line, on standard output or appended to a file. A guest that is denied without end
adds a few lines, not a full disk: the native side tells the first denials of a kind, then every
power of two, and says how many it left out.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

from torvyn.errors import MissingError

logger = logging.getLogger("torvyn.sandbox")


WEAKENED = "random:crypto"
"""Not refused but answered with numbers that are good for hash tables and not for keys."""


class Audit:
    """One flow's audit. Without a place to write to, nothing is written."""

    def __init__(self, to: str, file: str, flow: str, flow_id: str) -> None:
        self._to = to
        self._file = file
        self._flow = flow
        self._flow_id = flow_id
        self._descriptor: int | None = None
        self._has_failed = False

    def open(self) -> None:
        """Opens the file; a flow whose audit cannot be kept does not start."""
        if self._to != "file" or self._descriptor is not None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            # A pipe that nobody reads is an error here, not a flow that waits for a reader.
            self._descriptor = os.open(self._file, flags | os.O_NONBLOCK, 0o600)
            os.set_blocking(self._descriptor, True)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f"the audit file `{self._file}` cannot be written: {reason}"
            hint = "`audit_file` of `[security]` names another one"
            raise MissingError("sandbox.audit-unwritable", message, hint=hint) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def granted(self, node: str, component: str, capabilities: tuple[str, ...]) -> None:
        for capability in capabilities:
            self._write(node, component, capability, "granted")

    def denied(
        self, node: str, component: str, kind: str, asked: str, count: int, suppressed: int
    ) -> None:
        """A denial; `count` of its kind so far, `suppressed` since the last that was told."""
        capability = f"{kind}:{asked}" if asked else kind
        decision = "weakened" if kind == WEAKENED else "denied"
        self._write(node, component, capability, decision, count=count, suppressed=suppressed)

    def _write(
        self, node: str, component: str, capability: str, decision: str, **more: Any
    ) -> None:
        if self._to == "none":
            return
        fields = {
            "time": datetime.now(UTC).isoformat(timespec="microseconds"),
            "flow": self._flow,
            "flow_id": self._flow_id,
            "node": node,
            "component": component,
            "capability": capability,
            "decision": decision,
            **more,
        }
        # A guest chose these words: whatever a terminal would obey is escaped.
        line = json.dumps(fields).replace("\x7f", "\\u007f") + "\n"
        try:
            self._put(line)
        except OSError as error:
            self._complain(error)

    def _put(self, line: str) -> None:
        if self._descriptor is not None:
            # One write a line: lines of several processes do not mix.
            os.write(self._descriptor, line.encode())
        elif self._to == "stdout":
            sys.stdout.write(line)
            sys.stdout.flush()

    def _complain(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            logger.error("the audit cannot be written: %s", error, extra={"event": "audit.failed"})
