"""`Updater`: one look at the channel of a deployment, and what follows from it.

Whatever it learns it stores before it acts on it. It may be killed at any step: the next look
starts over, and continues downloads where they stopped.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torvyn._contract.enums import TextEnum
from torvyn.edge.artifact_source import add_from_layout
from torvyn.edge.channel import ArtifactEntry, ChannelDocument, ChannelTrust, accept
from torvyn.edge.channel.publication import KeySet
from torvyn.edge.failures import check_failed, damaged
from torvyn.edge.generations import Deployment, GenerationRecord
from torvyn.edge.generations.disk import reported
from torvyn.edge.generations.settings import DeploymentSettings, Following
from torvyn.edge.generations.state import DeploymentState
from torvyn.edge.update.download import discard, download
from torvyn.edge.update.source import ChannelSource, Progress, open_source

logger = logging.getLogger("torvyn.edge")

Check = Callable[[GenerationRecord], str | None]
"""Takes a generation; returns what is wrong with it, or None."""


class UpdateState(TextEnum):
    CURRENT = "current"
    UPDATED = "updated"
    EXCLUDED = "excluded"
    FAILED_BEFORE = "failed-before"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class UpdateResult:
    state: UpdateState
    version: int
    """Of the channel."""
    generation: int | None = None
    reason: str = ""


class Updater:
    def __init__(
        self,
        deployment: Deployment,
        settings: DeploymentSettings,
        follow: Following,
        *,
        check: Check,
        torvyn_version: str,
        source: ChannelSource | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._deployment: Final = deployment
        self._settings: Final = settings
        self._follow: Final = follow
        self._check: Final = check
        self._torvyn: Final = torvyn_version
        self._source: Final = source or open_source(follow.source, is_insecure=follow.is_insecure)
        self._clock: Final = clock

    def trust(self) -> ChannelTrust:
        """What is trusted now: what was accepted last, else the keys that the user gave."""
        return _trust(self._deployment.state(), self._follow, self._deployment.settings_file)

    def look(self, progress: Progress = lambda count: None) -> UpdateResult:
        """Fetches the channel, and makes its artifact current if that is new. Raises a
        `TorvynError` if something is refused or cannot be reached; then nothing has changed. Waits
        while another process updates the deployment."""
        with reported(self._deployment.folder), self._deployment.updating():
            return self._look(progress)

    def _look(self, progress: Progress) -> UpdateResult:
        document, state = self._accepted(self._source.publication(), self._clock())
        entry = document.artifact(self._follow.artifact)
        return self._without_update(document, entry, state) or self._update(
            document, entry, progress
        )

    def _accepted(self, data: bytes, clock_s: float) -> tuple[ChannelDocument, DeploymentState]:
        """The verified document, and the state that knows it. Nobody changes the state in between:
        a person may have replaced the keys while the publication was fetched."""
        documents = []

        def change(
            state: DeploymentState, records: Mapping[int, GenerationRecord]
        ) -> DeploymentState:
            before = _trust(state, self._follow, self._deployment.settings_file)
            document, trust = accept(data, before, clock_s)
            documents.append(document)
            return state.accept(trust.channel, trust.to_dict())

        state = self._deployment.change(change)
        return documents[-1], state

    def _without_update(
        self, document: ChannelDocument, entry: ArtifactEntry, state: DeploymentState
    ) -> UpdateResult | None:
        """Why nothing is to be done."""
        version = document.version
        current = self._deployment.records().get(state.current or 0)
        if current is not None and current.digest == entry.digest:
            return UpdateResult(UpdateState.CURRENT, version, current.number)
        if not entry.torvyn.allows(self._torvyn):
            reason = f"it needs torvyn {entry.torvyn}; this is {self._torvyn}"
            return UpdateResult(UpdateState.UNSUPPORTED, version, reason=reason)
        if not document.rollout.includes(self._device):
            reason = f"the rollout includes {document.rollout.percent} % of the devices"
            return UpdateResult(UpdateState.EXCLUDED, version, reason=reason)
        if not state.can_try(entry.digest, version):
            reason = state.failed[entry.digest].reason
            return UpdateResult(UpdateState.FAILED_BEFORE, version, reason=reason)
        return None

    def _update(
        self, document: ChannelDocument, entry: ArtifactEntry, progress: Progress
    ) -> UpdateResult:
        record = self._added(document, entry, progress)
        problem = self._check(record)
        if problem is not None:
            version = document.version
            self._deployment.change(lambda state, records: state.give_up(record, problem, version))
            raise check_failed(record.digest, problem)
        self._deployment.activate(record.number)
        logger.info("version %d of the channel is generation %d", document.version, record.number)
        return UpdateResult(UpdateState.UPDATED, document.version, record.number)

    def _added(
        self, document: ChannelDocument, entry: ArtifactEntry, progress: Progress
    ) -> GenerationRecord:
        """The artifact as a generation; one that an interrupted update has added is used."""
        deployment, version = self._deployment, document.version
        named = (entry.digest, version, document.channel)
        for record in deployment.records().values():
            if (record.digest, record.version, record.channel) == named:
                return record
        folder = deployment.folder / "downloads"
        earlier = [deployment.project(number) for number in reversed(deployment.records())]
        layout, descriptor = download(self._source, entry, folder, earlier, progress)
        source = f"{self._follow.source} version {version}"
        # The keys that this machine trusts have signed the digest.
        record = add_from_layout(
            deployment, layout, descriptor, source, version, document.channel, is_trusted=True
        )
        discard(folder)
        return record

    @property
    def _device(self) -> str:
        return self._settings.device or platform.node()


def accepted_trust(state: DeploymentState, channel: str) -> ChannelTrust | None:
    """What was accepted from a channel so far; None if nothing was, or if it cannot be read."""
    try:
        trust = ChannelTrust.from_dict(state.accepted(channel))
    except ValueError:
        return None
    return trust if trust.channel == channel else None


def _trust(state: DeploymentState, follow: Following, file: Path) -> ChannelTrust:
    trust = accepted_trust(state, follow.channel)
    if trust is not None:
        return trust
    try:
        keys = KeySet.of(list(follow.keys), follow.threshold, 1)
    except ValueError as error:
        raise damaged(file, str(error)) from None
    # After damage only the version is known; it still keeps older documents out.
    version = state.accepted(follow.channel).get("version", 0)
    version = version if isinstance(version, int) else 0
    return ChannelTrust(follow.channel, keys, version)
