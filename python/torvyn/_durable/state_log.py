"""The states of a segment as a log of changes, whatever keeps the log.

A state has parts: one per key of a node with a `key`, pieces of a fixed size of any other. A change
holds the parts that are new since the change before it, and the names of those that are gone. The
changes from `first` on, applied in order, give the state; the first one that a store gets is a
change of nothing. Applying a change twice makes no difference, so a change whose commit failed is
taken again, with what came since.

Nothing ever rewrites the log. Each change carries some of the oldest parts forward, at most twice
the bytes that it adds or makes useless, so that the oldest changes are not needed any more: the log
stays within a few times the state, and no change takes longer than it is large.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import Final, TypeAlias

PartName: TypeAlias = tuple[str, str]
"""The node and the part."""
Parts: TypeAlias = dict[PartName, bytes]
Change: TypeAlias = Mapping[PartName, bytes | None]
"""What a part is from now on; None if it is gone."""

CHUNK_BYTES: Final = 64 * 1024
"""The size of the pieces of a state that has no keys."""
SLACK_BYTES: Final = 512
"""What a log may have beyond twice its state before it is compacted."""
_CHUNK, _KEY = "#", "="
KEYED: Final = "%"
"""An empty part that every state with keys has, even without any key."""
_PART_BYTES: Final = 8
_GONE: Final = -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A change as a store keeps it. `shape` describes the segment that the state fits, as JSON."""

    segment: str
    shape: str
    number: int = 1
    first: int = 1
    """The changes before it are not needed any more."""
    body: bytes = b"[]\n"
    is_whole: bool = True
    """Nothing that is stored is needed any more, whatever it is."""
    is_new: bool = True
    """Whether it changes anything."""

    @classmethod
    def whole(cls, segment: str, shape: str, parts: Mapping[PartName, bytes]) -> Checkpoint:
        return cls(segment, shape, body=encode_change(parts))


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a store has of a segment."""

    segment: str
    shape: str
    first: int = 1
    number: int = 0
    parts: Parts = field(default_factory=dict)
    """The one that was saved longest ago comes first."""
    saved_at: Mapping[PartName, int] = field(default_factory=dict)
    sizes: tuple[tuple[int, int], ...] = ()
    """The numbers of the changes, and their bytes."""
    is_log: bool = True
    """Whether changes can be appended to it."""

    @property
    def nodes(self) -> list[str]:
        return sorted({node for node, _ in self.parts})

    @property
    def keyed_nodes(self) -> set[str]:
        return {node for node, part in self.parts if part == KEYED}

    def by_node(self) -> dict[str, dict[str, bytes]]:
        found: dict[str, dict[str, bytes]] = {}
        for (node, part), value in self.parts.items():
            found.setdefault(node, {})[part] = value
        return found


def replay(segment: str, shape: str, changes: Iterable[tuple[int, bytes]]) -> SavedState:
    """The state that changes give, by their numbers."""
    parts: Parts = {}
    saved_at: dict[PartName, int] = {}
    sizes = []
    for number, body in changes:
        sizes.append((number, len(body)))
        for name, value in decode_change(body):
            # Behind all others: the parts are in the order in which they were saved.
            parts.pop(name, None)
            saved_at.pop(name, None)
            if value is not None:
                parts[name], saved_at[name] = value, number
    first, last = (sizes[0][0], sizes[-1][0]) if sizes else (1, 0)
    return SavedState(segment, shape, first, last, parts, saved_at, tuple(sizes))


def encode_change(change: Change) -> bytes:
    groups: dict[str, tuple[list[str], list[int]]] = {}
    bodies: dict[str, list[bytes]] = {}
    for (node, part), value in change.items():
        names, sizes = groups.setdefault(node, ([], []))
        names.append(part)
        sizes.append(_GONE if value is None else len(value))
        if value is not None:
            bodies.setdefault(node, []).append(value)
    head = json.dumps([[node, *each] for node, each in groups.items()], separators=(",", ":"))
    own = chain.from_iterable(bodies.get(node, ()) for node in groups)
    return b"".join((head.encode(), b"\n", *own))


def decode_change(body: bytes) -> Iterator[tuple[PartName, bytes | None]]:
    at = body.index(b"\n")
    groups = json.loads(body[:at])
    at += 1
    for node, names, sizes in groups:
        for part, size in zip(names, sizes, strict=True):
            if size == _GONE:
                yield (node, part), None
            else:
                yield (node, part), body[at : at + size]
                at += size


def key_part(key: str) -> str:
    return _KEY + key


def chunk_parts(state: bytes) -> dict[str, bytes]:
    """A state without keys, in parts."""
    starts = range(0, len(state) or 1, CHUNK_BYTES)
    return {f"{_CHUNK}{at}": state[start : start + CHUNK_BYTES] for at, start in enumerate(starts)}


def chunk(state: bytes, part: str) -> bytes:
    start = int(part.removeprefix(_CHUNK)) * CHUNK_BYTES
    return state[start : start + CHUNK_BYTES]


def has_keys(parts: Mapping[str, bytes]) -> bool:
    return KEYED in parts


def join_chunks(parts: Mapping[str, bytes]) -> bytes:
    return b"".join(parts[f"{_CHUNK}{at}"] for at in range(len(parts)))


def key_of(part: str) -> str | None:
    return part.removeprefix(_KEY) if part.startswith(_KEY) else None


class StateLog:
    """Takes the changes of one segment, and knows which of them a store still needs."""

    def __init__(self) -> None:
        self.number = 0
        """The last change that is stored."""
        self.is_known = False
        """Whether the store has what this log says. If not, the next change is one of nothing."""
        self._saved: OrderedDict[PartName, tuple[int, int]] = OrderedDict()
        """By part, the change that has it and its bytes there; the oldest first."""
        self._pending: dict[PartName, bytes | None] = {}
        """What was taken and is not stored yet."""
        self._taken: dict[PartName, int] = {}
        """The parts of the last change that was taken, with their bytes; `_GONE` without."""
        self._taken_bytes = 0
        self._first = 1
        self._shape = ""
        self._taken_shape = ""
        self._changes: deque[tuple[int, int]] = deque()
        """The numbers of the changes that are stored, and their bytes."""
        self._digests: dict[PartName, bytes] = {}
        """Of the chunks that were taken last."""
        self._origins: dict[str, object] = {}
        """By node, the component that has told its changes until now."""
        self.told_by: set[str] = set()
        """The nodes that have parts."""
        self.log_bytes = self.live_bytes = 0

    def load(self, saved: SavedState, origins: Mapping[str, object]) -> None:
        """The store has this state, and these components were given theirs from it."""
        self.__init__()  # type: ignore[misc]
        self.number, self._shape, self._first = saved.number, saved.shape, saved.first
        self.is_known = saved.is_log
        for name, value in saved.parts.items():
            size = _size(name, value)
            self._saved[name] = saved.saved_at[name], size
            self.live_bytes += size
            if name[1].startswith(_CHUNK):
                self._digests[name] = _digest(value)
        self._changes.extend(saved.sizes)
        self.log_bytes = sum(size for _, size in saved.sizes)
        self._origins.update(origins)
        self.told_by.update(saved.nodes)

    def forget(self) -> None:
        """The store may have anything: the next change is one of nothing."""
        self.is_known = False
        self._digests.clear()

    # What has changed

    def tells_all(self, node: str, origin: object) -> bool:
        """Whether the node must tell all of its parts, because another component, or none, told
        them before. From now on this one does."""
        is_other = self._origins.get(node) is not origin
        self._origins[node] = origin
        self.told_by.add(node)
        return is_other or not self.is_known

    def changed_chunks(self, node: str, state: bytes) -> Change:
        chunks = chunk_parts(state)
        changed: dict[PartName, bytes | None] = {}
        for part, value in chunks.items():
            name, digest = (node, part), _digest(value)
            if not self.is_known or self._digests.get(name) != digest:
                changed[name] = value
                self._digests[name] = digest
        at = len(chunks)
        while self._digests.pop((node, f"{_CHUNK}{at}"), None) is not None:
            changed[node, f"{_CHUNK}{at}"] = None
            at += 1
        return changed

    def names(self, node: str) -> Iterator[PartName]:
        """The parts of a node that the store may have."""
        yield from (name for name in self._saved if name[0] == node)
        yield from (name for name in self._pending if name[0] == node)

    # Changes

    def take(
        self, segment: str, shape: str, change: Change, encode: Callable[[PartName], bytes]
    ) -> Checkpoint:
        """The next change, with all that was taken and is not stored yet. `encode` gives a part
        that has not changed."""
        is_whole, saved, pending = not self.is_known, self._saved, self._pending
        if is_whole:
            pending = self._pending = {n: v for n, v in change.items() if v is not None}
        else:
            for name, value in change.items():
                if value is not None or name in saved or name in pending:
                    pending[name] = value
        parts = dict(pending)
        if not is_whole:
            self._carry(parts, encode)
        number = self.number + 1
        body = encode_change(parts)
        first = number if is_whole else self._oldest(parts, number)
        self._taken = {n: _GONE if v is None else _size(n, v) for n, v in parts.items()}
        self._taken_bytes, self._first, self._taken_shape = len(body), first, shape
        is_new = is_whole or bool(parts) or shape != self._shape
        return Checkpoint(segment, shape, number, first, body, is_whole, is_new)

    def _carry(
        self, parts: dict[PartName, bytes | None], encode: Callable[[PartName], bytes]
    ) -> None:
        saved = self._saved
        added = sum(_size(name, value or b"") for name, value in parts.items())
        useless = sum(saved[name][1] for name in parts if name in saved)
        if self.log_bytes + added <= 2 * (self.live_bytes - useless + added) + SLACK_BYTES:
            return
        left = 2 * (added + useless)
        for name, (_, size) in saved.items():
            if name in parts:
                continue
            left -= size
            if left < 0:
                return
            parts[name] = encode(name)

    def _oldest(self, parts: Mapping[PartName, bytes | None], number: int) -> int:
        for name, (at, _) in self._saved.items():
            if name not in parts:
                return at
        return number

    def empty(self, segment: str, shape: str) -> Checkpoint:
        """A change after which there is no state."""
        self.forget()
        return self.take(segment, shape, {}, _nothing)

    def confirm(self) -> None:
        """The change that was taken last is stored."""
        saved = self._saved
        if not self.is_known:
            saved.clear()
            self._changes.clear()
            self.live_bytes = self.log_bytes = 0
            self.is_known = True
        self.number += 1
        for name, size in self._taken.items():
            self.live_bytes -= saved.pop(name, (0, 0))[1]
            if size != _GONE:
                saved[name] = self.number, size
                self.live_bytes += size
        self._changes.append((self.number, self._taken_bytes))
        self.log_bytes += self._taken_bytes
        while self._changes[0][0] < self._first:
            self.log_bytes -= self._changes.popleft()[1]
        self._shape = self._taken_shape
        self._pending, self._taken = {}, {}


def _nothing(name: PartName) -> bytes:
    raise AssertionError(name)


def _size(name: PartName, value: bytes) -> int:
    return len(value) + len(name[1]) + _PART_BYTES


def _digest(value: bytes) -> bytes:
    return value if len(value) <= 16 else blake2b(value, digest_size=16).digest()
