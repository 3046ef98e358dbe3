"""The audit: what the guests of a flow were granted when they started and denied while they ran.

A guest that is denied without end adds a few lines, not a full disk: the native side tells the
first denials of a kind, then every power of two, and says how many it left out.
"""

from __future__ import annotations

import logging
from typing import Any

from torvyn.errors import MissingError
from torvyn.sandbox.audit_log import AuditLog

logger = logging.getLogger("torvyn.sandbox")


WEAKENED = "random:crypto"
"""Not refused but answered with numbers that are good for hash tables and not for keys."""


class Audit:
    """One flow's audit. Without a place to write to, nothing is written."""

    def __init__(self, to: str, file: str, flow: str, flow_id: str) -> None:
        self._log = AuditLog(to, file, logger)
        self._flow = flow
        self._flow_id = flow_id

    def open(self) -> None:
        """Opens the file; a flow whose audit cannot be kept does not start."""
        self._log.open(_unwritable)

    def close(self) -> None:
        self._log.close()

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
        self._log.write(
            flow=self._flow,
            flow_id=self._flow_id,
            node=node,
            component=component,
            capability=capability,
            decision=decision,
            **more,
        )


def _unwritable(message: str) -> MissingError:
    hint = "`audit_file` of `[security]` names another one"
    return MissingError("sandbox.audit-unwritable", message, hint=hint)
