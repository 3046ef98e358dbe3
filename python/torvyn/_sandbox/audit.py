"""The audit: the capabilities that a flow's guests were granted at the start and denied later.

Repeated denials do not fill the disk: the native side reports the first denials of a kind, then
those at powers of two, with the number of suppressed ones.
"""

from __future__ import annotations

import logging
from typing import Any

from torvyn._io.audit_log import AuditLog
from torvyn.errors import MissingError

logger = logging.getLogger("torvyn.sandbox")


WEAKENED = "random:crypto"
"""Not denied: the guest gets random numbers that suit hash tables but not keys."""


class Audit:
    """The audit of one flow."""

    def __init__(self, to: str, file: str, flow: str, flow_id: str) -> None:
        self._log = AuditLog(to, file, logger)
        self._flow = flow
        self._flow_id = flow_id

    def open(self) -> None:
        """Opens the file; a flow whose audit cannot be written does not start."""
        self._log.open(_open_error)

    def close(self) -> None:
        self._log.close()

    def granted(self, node: str, component: str, capabilities: tuple[str, ...]) -> None:
        for capability in capabilities:
            self._write(node, component, capability, "granted")

    def denied(
        self, node: str, component: str, kind: str, target: str, count: int, suppressed: int
    ) -> None:
        """Records a denial: `count` of its kind so far, `suppressed` since the last record."""
        capability = f"{kind}:{target}" if target else kind
        decision = "weakened" if kind == WEAKENED else "denied"
        self._write(node, component, capability, decision, count=count, suppressed=suppressed)

    def _write(
        self, node: str, component: str, capability: str, decision: str, **fields: Any
    ) -> None:
        self._log.write(
            flow=self._flow,
            flow_id=self._flow_id,
            node=node,
            component=component,
            capability=capability,
            decision=decision,
            **fields,
        )


def _open_error(message: str) -> MissingError:
    hint = "set `audit_file` in `[security]` to another file"
    return MissingError("sandbox.audit-unwritable", message, hint=hint)
