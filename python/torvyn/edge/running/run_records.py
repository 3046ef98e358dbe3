"""What a run writes down about its generations.

The flow matters more than the note about it: what cannot be written is logged, and the next start
decides again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.generations.state import DeploymentState
from torvyn.edge.running.exchange_report import ExchangeReport
from torvyn.errors import TorvynError

logger = logging.getLogger("torvyn.edge")

_KEPT: Final = 1
"""Generations of the channel besides the current one and its fallback."""


class RunRecords:
    def __init__(self, deployment: Deployment) -> None:
        self._deployment: Final = deployment

    def give_up(self, record: GenerationRecord, reason: str) -> bool:
        """Whether another generation is current now."""
        self._change(lambda state: state.give_up(record, reason, state.seen_version))
        current = self._deployment.state().current
        if current == record.number:
            return False
        logger.error("generation %d is given up, %s is current", record.number, current)
        return True

    def damaged(self, record: GenerationRecord) -> None:
        """The generation is put where nothing starts it."""
        try:
            self._deployment.set_aside(record.number)
        except TorvynError as error:
            logger.error("%s", error.message)

    def mark_good(self, record: GenerationRecord) -> bool:
        """Whether it was not good before."""
        if record.number in self._deployment.state().good:
            return False
        self._change(lambda state: state.mark_good(record.number, _bar(state, record)))
        logger.info("generation %d is good", record.number)
        self._collect()
        return True

    def exchanged(self, report: ExchangeReport) -> None:
        logger.info("%s", report.sentence)
        self._change(lambda state: replace(state, exchange=report.to_dict()))

    def _collect(self) -> None:
        """Updates must not fill the disk. What a person has added is theirs to remove."""
        try:
            self._deployment.collect(_KEPT, is_of_channel=True)
        except TorvynError as error:
            logger.warning("%s", error.message)

    def _change(self, change: Callable[[DeploymentState], DeploymentState]) -> None:
        try:
            self._deployment.change(lambda state, records: change(state))
        except TorvynError as error:
            logger.error("%s", error.message)


def _bar(state: DeploymentState, record: GenerationRecord) -> int:
    """The `min_version` of the channel, once a version that it allows is good."""
    bar = state.channel.get("min_version", 0)
    if record.channel not in ("", state.channel_name):
        return 0
    is_allowed = isinstance(bar, int) and record.version is not None and record.version >= bar
    return bar if is_allowed else 0
