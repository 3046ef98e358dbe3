"""`Deployment`: one folder of generations, in the folder of all deployments of a machine or a user.

Every method may be interrupted at any point. Two processes may use a deployment at once: those that
write take a lock. Readers need none, because `state.json` and the folders of generations appear
complete.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Unpack

from torvyn._deploy.disk import Disk, held_lock, hold, reported
from torvyn._deploy.failures import (
    bad_name,
    damaged,
    disk_failed,
    no_generation,
    unknown_deployment,
    unknown_generation,
)
from torvyn._deploy.generation_state import (
    PROJECT,
    DeploymentState,
    Facts,
    GenerationRecord,
    artifact_of,
    manifest_of,
)
from torvyn._io.files import is_locked
from torvyn.errors import TorvynError

logger = logging.getLogger("torvyn.edge")

_DAMAGED: Final = ".damaged"
_UNREADABLE: Final = (OSError, KeyError, TypeError, ValueError, OverflowError)
"""What reading a file raises that is not what was written."""
_LOCK_WAIT_S: Final = 30.0
_UPDATE_WAIT_S: Final = 600.0
"""How long an update waits for another one, which may fetch a large artifact."""

Change = Callable[[DeploymentState, Mapping[int, GenerationRecord]], DeploymentState]


class Deployment:
    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self.folder: Final = folder
        self.name: Final = folder.name
        self.data: Final = folder / "data"
        self.settings_file: Final = folder / "deployment.json"
        self._disk: Final = disk or Disk()
        self._state_file: Final = folder / "state.json"
        self._state_copy: Final = folder / "state.copy.json"
        self._generations: Final = folder / "generations"
        self._staging: Final = folder / "staging"
        self.verified: Final = folder / "verified.json"

    def create(self) -> None:
        """Makes the folder, or what is missing in it."""
        for folder in (self._generations, self._staging, self.data):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise disk_failed(folder, error) from error
        if not self._state_file.exists():
            self._save(DeploymentState())

    @property
    def exists(self) -> bool:
        return self._state_file.exists() or self._generations.is_dir()

    # Reading

    def state(self) -> DeploymentState:
        """The state. One that cannot be read is taken from its copy, else from the links and the
        generations."""
        try:
            return DeploymentState.from_dict(_read_json(self._state_file))
        except FileNotFoundError:
            if not self.records() and not self._state_copy.exists():
                return DeploymentState()
            reason = "it is missing"
        except _UNREADABLE as error:
            reason = str(error) or type(error).__name__
        message = damaged(self._state_file, reason).message
        try:
            state = DeploymentState.from_dict(_read_json(self._state_copy))
        except _UNREADABLE:
            logger.error("%s; using the links instead", message)
            return self._recovered()
        logger.error("%s; using its copy instead", message)
        return state

    def records(self) -> dict[int, GenerationRecord]:
        """The complete generations by number."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for folder in self._generations.iterdir():
                with contextlib.suppress(*_UNREADABLE):
                    record = GenerationRecord.from_dict(_read_json(folder / "generation.json"))
                    if folder.name == str(record.number) and manifest_of(folder).is_file():
                        found[record.number] = record
        return dict(sorted(found.items()))

    def record(self, number: int) -> GenerationRecord:
        records = self.records()
        if number not in records and self.path(number).is_dir():
            raise damaged(self.path(number), "it is not a complete generation")
        if number not in records:
            raise unknown_generation(number, list(records))
        return records[number]

    def path(self, number: int) -> Path:
        """The folder of a generation."""
        return self._generations / str(number)

    def project(self, number: int) -> Path:
        """The unpacked artifact of a generation."""
        return self.path(number) / PROJECT

    def manifest(self, number: int) -> Path:
        return manifest_of(self.path(number))

    # Changing

    def add(
        self,
        fill: Callable[[Path], object],
        digest: str,
        source: str,
        artifact: bytes = b"",
        **facts: Unpack[Facts],
    ) -> GenerationRecord:
        """Adds a generation. `fill` creates the folder it is given and writes the project there,
        complete and synced to the disk; `artifact` is the manifest with the digests of its files.
        The first generation becomes current."""
        self.create()
        with self._disk.staging(self._staging) as staged:
            made = staged / "generation"
            with reported(made):
                made.mkdir()
            fill(made / PROJECT)
            if artifact:
                self._disk.write(artifact_of(made), artifact)
            with self._locked():
                number = max(self.state().next, *(n + 1 for n in self.records()), 1)
                added = datetime.now(UTC).isoformat(timespec="seconds")
                record = GenerationRecord(number, digest, source, added, **facts)
                self._disk.write(made / "generation.json", _json(record.to_dict()))
                self._disk.move(made, self.path(number))
                self._apply(lambda state, records: _added(state, record))
        return record

    def activate(self, number: int) -> DeploymentState:
        """Makes a generation current, on trial unless it is known to be good."""
        record = self.record(number)
        return self.change(lambda state, records: state.activate(record))

    def roll_back(self) -> DeploymentState:
        return self.change(lambda state, records: state.roll_back())

    def start(self, without: Collection[int] = ()) -> GenerationRecord:
        """The generation to run now; none of those that are damaged. Counts the start; a disk that
        cannot be written to does not prevent it."""
        records = {n: record for n, record in self.records().items() if n not in without}
        before = self.state()
        chosen = before.start(records)
        try:
            chosen = self.change(lambda state, _: state.start(records))
        except TorvynError as error:
            if error.code not in ("edge.disk-failed", "edge.in-use"):
                raise
            logger.error("the start is not counted: %s", error.message)
        if chosen.current is None:
            raise no_generation(self.name)
        if before.current not in (None, chosen.current) and before.current != before.trying:
            logger.error(
                "generation %d is not complete; generation %d is started instead",
                before.current,
                chosen.current,
            )
        return self.record(chosen.current)

    def set_aside(self, number: int) -> DeploymentState:
        """Puts a damaged generation where nothing runs it, and the fallback in its place. It is
        kept until the next one is damaged, or `collect`, so that somebody can look at it."""
        with self._locked():
            state = self._apply(lambda state, records: state.with_existing({*records} - {number}))
            self._remove_damaged()
            if self.path(number).exists():
                self._disk.move(self.path(number), self.path(number).with_suffix(_DAMAGED))
        return state

    def damaged(self) -> list[int]:
        """The generations that were set aside."""
        found = self._generations.glob(f"*{_DAMAGED}")
        return sorted(int(path.stem) for path in found if path.stem.isdecimal())

    def _remove_damaged(self) -> None:
        for number in self.damaged():
            path = self.path(number).with_suffix(_DAMAGED)
            if not is_locked(path):
                self._disk.remove(path, self._staging)

    def collect(self, keep: int = 0, *, is_of_channel: bool = False) -> list[int]:
        """Removes generations that are not needed, except the newest `keep`; returns their
        numbers. With `is_of_channel`, those that a person has added stay."""
        self.create()
        with self._locked():
            records = self.records()
            numbers = [n for n in records if records[n].version is not None or not is_of_channel]
            unused = [number for number in numbers if not is_locked(self.path(number))]
            removed = self.state().removable(unused, keep)
            for number in removed:
                self._disk.remove(self.path(number), self._staging)
            if not is_of_channel:
                self._remove_damaged()
        return removed

    def hold(self, number: int) -> int:
        """A descriptor: until it is closed, `collect` leaves the generation alone."""
        return hold(self.path(number))

    @contextlib.contextmanager
    def updating(self) -> Iterator[None]:
        """One update at a time: two would share their downloads, and each add a generation."""
        self.create()
        with held_lock(self.folder / "update.lock", _UPDATE_WAIT_S, f"updates `{self.name}`"):
            yield

    def change(self, change: Change) -> DeploymentState:
        """Applies a rule of `DeploymentState`, alone."""
        self.create()
        with self._locked():
            return self._apply(change)

    def _apply(self, change: Change) -> DeploymentState:
        before = self.state()
        after = change(before, self.records())
        if after != before or not self._state_file.exists():
            self._save(after)
        self._set_links(after)
        return after

    def _save(self, state: DeploymentState) -> None:
        data = _json(state.to_dict())
        self._disk.write(self._state_file, data)
        try:
            self._disk.write(self._state_copy, data)
        except TorvynError as error:
            logger.warning("the copy of the state is old: %s", error.message)

    def _set_links(self, state: DeploymentState) -> None:
        for name, number in (("current", state.current), ("previous", state.previous)):
            target = None if number is None else f"generations/{number}"
            self._disk.link(self.folder / name, target)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time."""
        with held_lock(self.folder / "lock", _LOCK_WAIT_S, f"changes `{self.name}`"):
            self._disk.sweep(self._staging)
            yield

    def _recovered(self) -> DeploymentState:
        """What the links and the generations say. The current generation counts as good: it ran."""
        records = self.records()
        current, previous = (self._linked(name) for name in ("current", "previous"))
        good = frozenset(n for n in (current, previous) if n in records)
        seen: dict[str, dict[str, int]] = {}
        for record in records.values():
            if record.version is not None:
                newest = max(record.version, seen.get(record.channel, {}).get("version", 0))
                seen[record.channel] = {"version": newest}
        return DeploymentState(
            next=max(records, default=0) + 1,
            current=current if current in records else max(records, default=None),
            previous=previous if previous in records else None,
            good=good,
            left_channels=seen,
        )

    def _linked(self, name: str) -> int | None:
        with contextlib.suppress(OSError, ValueError):
            return int(Path(os.readlink(self.folder / name)).name)
        return None


def _added(state: DeploymentState, record: GenerationRecord) -> DeploymentState:
    state = replace(state, next=record.number + 1)
    return state if state.current is not None else state.activate(record)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def default_root() -> Path:
    """That of the machine for root, else the user's folder for state."""
    if os.geteuid() == 0:
        return Path("/var/lib/torvyn/deployments")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "torvyn", "deployments")


def deployments(root: Path) -> list[Deployment]:
    """All deployments, by name."""
    if not root.is_dir():
        return []
    found = (Deployment(folder) for folder in root.iterdir() if _NAME.fullmatch(folder.name))
    return sorted((each for each in found if each.exists), key=lambda each: each.name)


def open_deployment(root: Path, name: str) -> Deployment:
    """The deployment, whether it exists or not."""
    if not _NAME.fullmatch(name):
        raise bad_name(name)
    return Deployment(root / name)


def find_deployment(root: Path, name: str) -> Deployment:
    deployment = open_deployment(root, name)
    if not deployment.exists:
        raise unknown_deployment(name, root, [each.name for each in deployments(root)])
    return deployment
