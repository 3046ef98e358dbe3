"""Logs the errors that a flow tolerates: of a node's policy the first, second, fourth..."""

from __future__ import annotations

import logging

from torvyn._contract.enums import ErrorKind
from torvyn._link.plan import Plan
from torvyn.reactor.failures import component_label, element_label, error_text

logger = logging.getLogger("torvyn.reactor")


class ErrorLog:
    """Called by the native core, which counts the errors."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(
        self,
        index: int,
        kind: ErrorKind,
        message: str,
        count: int,
        cause: BaseException | None,
        sequence: int | None,
    ) -> None:
        node = self.plan.nodes[index]
        # A dead letter carries its error; of a skipped element only this line is left.
        is_kept = "dead-letter" in (node.on_error.policy, node.on_error.then)
        logger.log(
            logging.INFO if is_kept else logging.WARNING,
            "node `%s`%s failed%s (%d so far, policy `%s`): %s",
            node.name,
            component_label(node),
            element_label(sequence),
            count,
            node.on_error.policy,
            self.plan.redact(error_text(cause, message)),
            exc_info=cause if logger.isEnabledFor(logging.DEBUG) else None,
            extra={
                "node": node.name,
                "kind": str(kind),
                "count": count,
                "sequence": sequence,
                "event": "node.error",
            },
        )


def log_acknowledge_failure(error: BaseException) -> None:
    """A notification has no answer: log its failure and go on."""
    logger.warning("a source failed in `acknowledge`", exc_info=error)
