"""Which generation of a deployment is current, and the rules by which that changes. No I/O.

A generation is known by where it came from and which artifact it is. A new one is on trial until it
has been healthy for a while: `trying` is its number and `attempts` how often it was started. At the
third start it is given up, and the fallback becomes current. `previous` is the fallback; it is
always good, and never removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypedDict

from torvyn._deploy.failures import barred, no_fallback, too_many_channels

PROJECT: Final = "project"
"""The folder of the unpacked artifact inside that of a generation."""
_ARTIFACT: Final = "artifact.json"


class Facts(TypedDict, total=False):
    """What may be known about a new generation; see `GenerationRecord`."""

    version: int | None
    channel: str
    title: str
    is_trusted: bool


@dataclass(frozen=True, slots=True)
class GenerationRecord:
    number: int
    digest: str
    """Of the artifact's manifest."""
    source: str
    """The reference that a person or a channel gave."""
    added: str
    """When, in UTC."""
    version: int | None = None
    """The version of the channel that named it; None if a person added it."""
    channel: str = ""
    """The name of that channel."""
    title: str = ""
    """The name and the version of the project."""
    is_trusted: bool = False
    """Whether a trusted key has signed it, or it was packed here: its precompiled code is used."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> GenerationRecord:
        """Raises `KeyError`, `TypeError` or `ValueError` for anything but `to_dict`."""
        version = value["version"]
        return cls(
            number=int(value["number"]),
            digest=str(value["digest"]),
            source=str(value["source"]),
            added=str(value["added"]),
            version=None if version is None else int(version),
            channel=str(value.get("channel", "")),
            title=str(value["title"]),
            is_trusted=value.get("is_trusted") is True,
        )


def manifest_of(folder: Path) -> Path:
    """The manifest of the generation in a folder."""
    return folder / PROJECT / "Torvyn.toml"


def artifact_of(folder: Path) -> Path:
    """The manifest of the artifact, with the digests of its files. Generations that were not
    unpacked from one have none."""
    return folder / _ARTIFACT


MAX_ATTEMPTS: Final = 2
"""How often a generation on trial is started."""
MAX_CHANNELS: Final = 64
"""How many channels a deployment remembers. None is forgotten: the next one is refused."""
MAX_FAILURES: Final = 256
"""How many artifacts that were given up are remembered."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an artifact was given up."""

    reason: str
    version: int = 0
    """The newest version of the channel then: a later one may try the artifact again."""
    channel: str = ""
    """The name of that channel: another one may try it too."""


@dataclass(frozen=True, slots=True)
class DeploymentState:
    next: int = 1
    """The number of the next generation; numbers are never used twice."""
    current: int | None = None
    previous: int | None = None
    trying: int | None = None
    attempts: int = 0
    good: frozenset[int] = frozenset()
    failed: Mapping[str, Failure] = field(default_factory=dict)
    """By the digest of the artifact."""
    min_versions: Mapping[str, int] = field(default_factory=dict)
    """By channel: earlier versions of it are not activated any more."""
    channel: Mapping[str, Any] = field(default_factory=dict)
    """What the deployment knows about its channel: see `torvyn._deploy.trust`."""
    left_channels: Mapping[str, Any] = field(default_factory=dict)
    """The same of the channels that it has followed before, by name."""
    exchange: Mapping[str, Any] = field(default_factory=dict)
    """The last `ExchangeReport`: see `torvyn._deploy.exchange`."""

    # Changes

    def activate(self, record: GenerationRecord) -> DeploymentState:
        """Makes a generation current, on trial unless it is known to be good."""
        number = record.number
        bar = self.min_versions.get(record.channel or self.channel_name, 0)
        if record.version is not None and record.version < bar:
            raise barred(number, record.version, bar)
        if number == self.current:
            return self
        fallback = self.current if self.current in self.good else self.previous
        if fallback == number:
            fallback = self._other_good(number)
        trying = None if number in self.good else number
        return replace(self, current=number, previous=fallback, trying=trying, attempts=0)

    def roll_back(self) -> DeploymentState:
        """Makes the fallback current. The one before becomes the fallback if it is good."""
        if self.previous is None:
            raise no_fallback()
        fallback = self.current if self.current in self.good else None
        state = replace(self, current=self.previous, trying=None, attempts=0)
        return replace(state, previous=fallback or state._other_good(state.current))

    def give_up(self, record: GenerationRecord, reason: str, version: int = 0) -> DeploymentState:
        """The generation has failed. It is not current any more if there is a fallback."""
        failed = {**self.failed, record.digest: Failure(reason[:500], version, self.channel_name)}
        while len(failed) > MAX_FAILURES:
            del failed[min(failed, key=lambda digest: failed[digest].version)]
        good = self.good - {record.number}
        state = replace(self, failed=failed, good=good)
        if state.previous == record.number:
            state = replace(state, previous=state._other_good(state.current))
        if state.current != record.number or state.previous is None:
            return state
        return state.roll_back()

    def mark_good(self, number: int, min_version: int = 0) -> DeploymentState:
        """The generation has been healthy for long enough. From now on, versions of its channel
        before `min_version` are barred: until now one of them was the only fallback."""
        state = replace(self, good=self.good | {number})
        if self.trying == number:
            state = replace(state, trying=None, attempts=0)
        name = self.channel_name
        bars = {**self.min_versions, name: max(self.min_versions.get(name, 0), min_version)}
        return replace(state, min_versions=bars if min_version else self.min_versions)

    def accept(self, name: str, channel: Mapping[str, Any]) -> DeploymentState:
        """Something was accepted from the channel of that name. What is known of the one before is
        kept, so that nobody can roll back a deployment that leaves a channel and comes back."""
        left = dict(self.left_channels)
        if self.channel:
            left[self.channel_name] = self.channel
        if name not in left and len(left) >= MAX_CHANNELS:
            raise too_many_channels(name, MAX_CHANNELS)
        left.pop(name, None)
        return replace(self, channel=channel, left_channels=left)

    def start(self, records: Mapping[int, GenerationRecord]) -> DeploymentState:
        """Counts a start of the current generation; one on trial that was started too often is
        given up instead."""
        state = self.with_existing(records)
        if state.trying is None:
            return state
        if state.attempts >= MAX_ATTEMPTS and state.previous is not None:
            times = f"{state.attempts} times"
            reason = f"it was started {times} and did not stay healthy"
            return state.give_up(records[state.trying], reason, self.seen_version)
        return replace(state, attempts=state.attempts + 1)

    def with_existing(self, records: Collection[int]) -> DeploymentState:
        """Without generations whose folder is gone: somebody has removed it by hand."""
        good = frozenset(number for number in self.good if number in records)
        state = replace(self, good=good, previous=_if_in(self.previous, records))
        if self.current in records:
            return state
        fallback = state.previous or state._other_good(None) or max(records, default=None)
        trying = None if fallback in good else fallback
        state = replace(state, current=fallback, trying=trying, attempts=0)
        return replace(state, previous=state._other_good(fallback))

    # Questions

    def can_try(self, digest: str, version: int) -> bool:
        """Whether an artifact has not failed, or the channel has changed since."""
        failure = self.failed.get(digest)
        if failure is None or failure.channel not in ("", self.channel_name):
            return True
        return version > failure.version

    def removable(self, numbers: Collection[int], keep: int) -> list[int]:
        """Generations that are neither current nor the fallback; the newest `keep` others stay."""
        used = {self.current, self.previous, self.trying}
        others = sorted((number for number in numbers if number not in used), reverse=True)
        return sorted(others[keep:])

    def accepted(self, name: str) -> Mapping[str, Any]:
        """What is known of the channel of that name. After damage, what is left counts for any."""
        if self.channel and self.channel.get("name", name) == name:
            return self.channel
        found: Mapping[str, Any] = self.left_channels.get(name) or self.left_channels.get("", {})
        return found

    @property
    def channel_name(self) -> str:
        """Of the channel that it follows; empty if none is known."""
        return str(self.channel.get("name", ""))

    @property
    def seen_version(self) -> int:
        """The newest version of the channel that was accepted."""
        version = self.channel.get("version", 0)
        return version if isinstance(version, int) else 0

    def _other_good(self, number: int | None) -> int | None:
        return max((each for each in self.good if each != number), default=None)

    # Storage

    def to_dict(self) -> dict[str, Any]:
        failed = {digest: asdict(failure) for digest, failure in self.failed.items()}
        return {
            "schema": 1,
            "next": self.next,
            "current": self.current,
            "previous": self.previous,
            "trying": self.trying,
            "attempts": self.attempts,
            "good": sorted(self.good),
            "failed": failed,
            "min_versions": dict(self.min_versions),
            "channel": dict(self.channel),
            "left_channels": dict(self.left_channels),
            "exchange": dict(self.exchange),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> DeploymentState:
        """Raises `KeyError`, `TypeError` or `ValueError` for anything but `to_dict`."""
        if value["schema"] != 1:
            raise ValueError("it was written by another version of torvyn")
        failed = {
            str(digest): Failure(
                str(each["reason"]), int(each["version"]), str(each.get("channel", ""))
            )
            for digest, each in dict(value["failed"]).items()
        }
        return cls(
            next=int(value["next"]),
            current=_number(value["current"]),
            previous=_number(value["previous"]),
            trying=_number(value["trying"]),
            attempts=int(value["attempts"]),
            good=frozenset(int(number) for number in value["good"]),
            failed=failed,
            min_versions=_bars(value),
            channel=dict(value["channel"]),
            left_channels=dict(value.get("left_channels", {})),
            exchange=dict(value.get("exchange", {})),
        )


def _bars(value: Mapping[str, Any]) -> dict[str, int]:
    """Before a deployment knew several channels, it had one bar: `min_version`."""
    if "min_versions" not in value:
        name = dict(value["channel"]).get("name", "")
        return {str(name): int(value["min_version"])}
    return {str(name): int(bar) for name, bar in dict(value["min_versions"]).items()}


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _if_in(number: int | None, numbers: Collection[int]) -> int | None:
    return number if number in numbers else None
