"""Errors that a node's policy lives with: logged at the first, second, fourth..."""

from __future__ import annotations

import logging

from torvyn.link.plan import Plan
from torvyn.reactor.failures import component_of, on_element, said

logger = logging.getLogger("torvyn.reactor")


class ErrorReport:
    """Called by the native core, which counts."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __call__(
        self,
        index: int,
        kind: str,
        message: str,
        count: int,
        cause: BaseException | None,
        sequence: int | None,
    ) -> None:
        node = self._plan.nodes[index]
        # A dead letter says itself why it failed; of what was skipped nothing else is left.
        kept = "dead-letter" in (node.on_error.policy, node.on_error.then)
        logger.log(
            logging.INFO if kept else logging.WARNING,
            "node `%s`%s failed%s (%d so far, policy `%s`): %s",
            node.name,
            component_of(node),
            on_element(sequence),
            count,
            node.on_error.policy,
            self._plan.redact(said(cause, message)),
            exc_info=cause if logger.isEnabledFor(logging.DEBUG) else None,
            extra={
                "node": node.name,
                "kind": kind,
                "count": count,
                "sequence": sequence,
                "event": "node.error",
            },
        )
