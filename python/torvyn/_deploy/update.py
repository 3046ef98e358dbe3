"""Follows a channel: looks at it again and again, and downloads and adds what it names.

`Updater` is one look, and what follows from it. Whatever it learns it stores before it acts on it.
It may be killed at any step: the next look starts over, and continues downloads where they stopped.

An artifact is one blob per file, so a new version shares most of them with the one before. What an
earlier generation has on disk is copied from there, after its digest was checked. Devices that
start together look at different times; a source that cannot be reached is asked less often.
"""

from __future__ import annotations

import logging
import platform
import random
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from torvyn._artifact.fetch import FetchOptions, fetch
from torvyn._artifact.layout import Layout, check_content
from torvyn._artifact.oci import (
    EMPTY,
    EMPTY_DATA,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    PROJECT,
    TITLE,
    Descriptor,
    Digest,
    ImageManifest,
    too_large,
)
from torvyn._artifact.trust import TrustPolicy
from torvyn._artifact.unpack import default_cache_dir, unpack, was_packed_here
from torvyn._contract.enums import TextEnum
from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.disk import reported
from torvyn._deploy.failures import check_failed, damaged, not_a_project
from torvyn._deploy.generation_state import DeploymentState, Facts, GenerationRecord
from torvyn._deploy.publication import KeySet
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.source import ChannelSource, Progress, open_source
from torvyn._deploy.trust import ChannelTrust, accept
from torvyn._io.backoff import Backoff
from torvyn._io.restart import keep_running
from torvyn.errors import Diagnostic, TorvynError

VERSION: Final = "org.opencontainers.image.version"


def add_artifact(
    deployment: Deployment, reference: str, *, is_insecure: bool = False
) -> tuple[GenerationRecord, tuple[Diagnostic, ...]]:
    """Adds the artifact that a person named: in a layout, in a registry, or in the cache if the
    registry is away. What this machine's policy rejects is not added; what it warns of is
    returned. `is_insecure`: a registry on another machine may have no TLS."""
    fetched = fetch(reference, FetchOptions(TrustPolicy.load(), is_insecure=is_insecure))
    digest, layout = fetched.descriptor.digest, fetched.layout
    is_trusted = fetched.verification.is_verified or was_packed_here(digest, default_cache_dir())
    record = add_from_layout(
        deployment, layout, fetched.descriptor, reference, is_trusted=is_trusted
    )
    return record, fetched.warnings


def add_from_layout(
    deployment: Deployment,
    layout: Layout,
    descriptor: Descriptor,
    source: str,
    version: int | None = None,
    channel: str = "",
    *,
    is_trusted: bool = False,
) -> GenerationRecord:
    """Adds an artifact whose blobs are in a layout. All of them are verified first. `version` and
    `channel` are those that named it; `is_trusted`: whether its precompiled code may be used."""
    data, manifest = layout.read(descriptor), layout.manifest(descriptor)
    if manifest.artifact_type != PROJECT:
        raise not_a_project(descriptor.digest, manifest.artifact_type or "")
    title = " ".join(
        text for key in (TITLE, VERSION) if (text := manifest.annotations.get(key, ""))
    )
    fill = partial(unpack, layout, descriptor)
    facts = Facts(version=version, channel=channel, title=title, is_trusted=is_trusted)
    return deployment.add(fill, descriptor.digest, source, data, **facts)


def download(
    source: ChannelSource,
    entry: ArtifactEntry,
    folder: Path,
    earlier: list[Path],
    progress: Progress = lambda count: None,
) -> tuple[Layout, Descriptor]:
    """The artifact in a layout in `folder`. `earlier` are the projects of other generations."""
    layout = Layout.create(folder)
    data = source.manifest(entry.digest, min(entry.size, MAX_MANIFEST_BYTES))
    descriptor = Descriptor(IMAGE_MANIFEST, entry.digest, len(data))
    check_content(data, descriptor, f"the manifest of `{entry.name}`")
    blobs = _blobs(data, entry)
    _remove_others(layout, [entry.digest, *(blob.digest for blob in blobs)])
    missing = [
        blob for blob in blobs if not _is_here(layout, blob) and not _copied(layout, blob, earlier)
    ]
    source.fetch(missing, layout, progress)
    layout.add(IMAGE_MANIFEST, data)
    layout.list_manifest(descriptor)
    return layout, descriptor


def discard(folder: Path) -> None:
    """Removes what was downloaded: it has become a generation."""
    shutil.rmtree(folder, ignore_errors=True)


def total_bytes(data: bytes) -> int:
    """The size of an artifact, as a channel states it: its manifest and all its blobs."""
    return len(data) + sum(blob.size for blob in ImageManifest.parse(data).blobs)


def _blobs(data: bytes, entry: ArtifactEntry) -> tuple[Descriptor, ...]:
    """What to fetch: not more than the channel says."""
    blobs = ImageManifest.parse(data).blobs
    size = len(data) + sum(blob.size for blob in blobs)
    if size > entry.size:
        problem = f"the artifact `{entry.name}` has {size} bytes; its channel says {entry.size}"
        raise too_large(problem)
    return blobs


def _remove_others(layout: Layout, digests: list[Digest]) -> None:
    """Removes what cut downloads of other versions have left: a device has room for one."""
    names = {digest.removeprefix("sha256:") for digest in digests}
    for folder in (layout.path(digests[0]).parent, layout.folder / "parts"):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)


def _is_here(layout: Layout, blob: Descriptor) -> bool:
    if not layout.has(blob):
        return False
    try:
        layout.verify(blob)
    except TorvynError:
        return False
    return True


def _copied(layout: Layout, blob: Descriptor, earlier: list[Path]) -> bool:
    """Whether a file of an earlier generation is this blob."""
    if blob.digest == EMPTY.digest:
        layout.add(EMPTY.media_type, EMPTY_DATA)
        return True
    if not blob.title:
        return False
    for project in earlier:
        file = project / blob.title
        if file.is_file() and file.stat().st_size == blob.size:
            added = layout.add_file(blob.media_type, file)
            if added.digest == blob.digest:
                return True
    return False


logger = logging.getLogger("torvyn.edge")

_FIRST_S: Final = 5.0
_JITTER: Final = 0.1


class FollowLoop:
    """A context manager: follows the channel while the block runs."""

    def __init__(
        self,
        updater: Updater,
        interval_s: float,
        on_update: Callable[[], None],
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.last: UpdateResult | None = None
        self.last_problem = ""
        self._updater: Final = updater
        self._interval_s: Final = interval_s
        self._on_update: Final = on_update
        self._draw: Final = draw
        self._backoff = Backoff(min(_FIRST_S, interval_s), interval_s, draw)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torvyn-follow", daemon=True)

    def __enter__(self) -> FollowLoop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A download in progress is not waited for: the next start continues it.
        self._stopped.set()

    def _run(self) -> None:
        keep_running(self._follow, self._stopped.wait, self._note_problem, self._backoff)

    def _follow(self) -> None:
        delay_s = self._draw() * min(_FIRST_S, self._interval_s)
        while not self._stopped.wait(delay_s):
            delay_s = self._look()

    def _note_problem(self, reason: str) -> None:
        """The flow must go on, and so must the loop that could repair what is wrong."""
        self.last_problem = reason

    def _look(self) -> float:
        """Returns how long to wait until the next look."""
        try:
            result = self._updater.look()
        except TorvynError as error:
            if error.message != self.last_problem:
                logger.warning("no update: %s", error.message)
            self.last_problem = error.message
            return self._backoff.next_delay_s(1.0)
        self._backoff.reset()
        self.last, self.last_problem = result, ""
        if result.state is UpdateState.UPDATED:
            self._on_update()
        return self._interval_s * (1 - _JITTER + 2 * _JITTER * self._draw())


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
