"""Random histories of a segment's state, for any store: updates, removals, evictions, checkpoints
that fail or are stored though they failed, kills, exchanges of components.

Every cut is stored together with its number. After a kill the store has the last cut that was
confirmed, or a later one, and the components have its state exactly: the same keys in the same
order, and the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import torvyn
from torvyn._durable.checkpoint import Checkpoints
from torvyn._durable.disk.states import StateGoneError
from torvyn._durable.segments import wire
from torvyn._durable.state_log import SLACK_BYTES, Checkpoint, SavedState
from torvyn.components.keys.keyed_components import KeyedComponents
from torvyn.components.keys.keyed_roles import KeyedProcessor
from torvyn.errors import StoreUnavailable

SEGMENT = "in"
MAX_KEYS = 12
Fate = Literal["stored", "lost", "unconfirmed"]
"""A checkpoint is stored; or its commit fails; or it fails, though it was stored."""


class History(Protocol):
    """A store in which a history takes place."""

    def commit(self, checkpoint: Checkpoint, cut: int, fate: Fate) -> None:
        """Stores a checkpoint together with the number of the cut. Raises `StoreUnavailable` unless
        it is to be stored; and `StateGoneError`."""

    def kill(self) -> tuple[SavedState | None, int]:
        """The process ends; returns what the next one finds: the state and the cut."""

    def stored_bytes(self) -> int:
        """The changes that the store has."""


class Counter(torvyn.Processor):
    """Its state has as many bytes as its key has seen elements, and a few more."""

    seen = 0

    def process(self, element: torvyn.Element) -> str:
        self.seen += 1
        return str(self.seen)

    def flush(self) -> str:
        return str(self.seen)

    def snapshot(self) -> bytes:
        return bytes(self.seen % 200) + self.seen.to_bytes(4, "big")

    def restore(self, state: bytes) -> None:
        self.seen = int.from_bytes(state[-4:], "big")


class Large(torvyn.Processor):
    """A state without keys, of several chunks."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def process(self, element: torvyn.Element) -> None:
        pass

    def snapshot(self) -> bytes:
        return bytes(self.data)

    def restore(self, state: bytes) -> None:
        self.data = bytearray(state)


@dataclass
class Run:
    """What a runner is to the checkpoints."""

    node: Any
    component: Any


def make_plan() -> Any:
    flow = torvyn.Flow(name="main").add("in", ["x"]).add("large", Large())
    flow.add("keys", Counter(), key="k", max_keys=MAX_KEYS).add("out", torvyn.sink(print))
    flow.connect("in", "large").connect("large", "keys")
    return wire(flow.connect("keys", "out", carrier="disk").plan)


WIRED: Any = None


@dataclass
class StateHistory:
    store: History
    dice: random.Random
    states: list[tuple[bytes, bytes]] = field(default_factory=list)
    """By cut."""
    confirmed: int = 0
    """The last cut that is known to be stored."""
    largest_bytes: int = 0

    def __post_init__(self) -> None:
        global WIRED
        WIRED = WIRED or make_plan()
        self._start()
        self.states = [self.state]

    def _start(self) -> None:
        self.keyed, self.large = self._new_keyed(), Large()
        self.previous: list[KeyedProcessor] = []
        components = {"keys": self.keyed, "large": self.large}
        self.runs = [Run(node, components.get(node.name, node)) for node in WIRED.plan.nodes]
        self.checkpoints = Checkpoints(WIRED, cast(Any, self.runs))

    def _new_keyed(self) -> KeyedProcessor:
        keyed = KeyedComponents(Counter, lambda e: e.text, MAX_KEYS, 2**30)
        made = KeyedProcessor(keyed, has_timer=False, has_state=True)
        made.init("")
        return made

    @property
    def state(self) -> tuple[bytes, bytes]:
        return self.keyed.snapshot(), self.large.snapshot()

    @property
    def log(self) -> Any:
        return self.checkpoints.logs[0]

    def go(self, steps: int) -> None:
        for _ in range(steps):
            work: list[Callable[[], None]] = [self.use, self.use, self.resize, self.cut, self.cut]
            self.dice.choice([*work, *work, self.swap, self.swap_back, self.kill])()
        self.kill()

    def use(self) -> None:
        """Some keys get elements; a new one may evict the one that was used longest ago."""
        width = self.dice.choice((3, MAX_KEYS, 3 * MAX_KEYS))
        for _ in range(self.dice.randint(1, 40)):
            key = f"key-{self.dice.randrange(width)}"
            self.keyed.process(torvyn.Element(key))  # type: ignore[attr-defined]

    def resize(self) -> None:
        data, dice = self.large.data, self.dice
        how = dice.randrange(4)
        if how == 0:
            data += dice.randbytes(dice.choice((10, 70_000)))
        elif how == 1:
            del data[dice.randint(0, len(data)) :]
        elif data:
            data[dice.randrange(len(data))] ^= 1

    def swap(self) -> None:
        """A new version of the component takes over the state."""
        old, new = self.keyed, self._new_keyed()
        new.restore(old.snapshot())
        self.previous.append(old)
        self._install(new)

    def swap_back(self) -> None:
        """The version before comes back, as it was."""
        if self.previous:
            self._install(self.previous.pop())

    def _install(self, keyed: KeyedProcessor) -> None:
        self.keyed = keyed
        at = next(at for at, run in enumerate(self.runs) if run.node.name == "keys")
        self.runs[at].component = self.keyed

    def cut(self) -> None:
        fate: Fate = self.dice.choice(("stored", "stored", "stored", "lost", "unconfirmed"))
        checkpoint = self.checkpoints.take(0, ())
        self.states.append(self.state)
        self.largest_bytes = max(self.largest_bytes, len(checkpoint.body))
        cut = len(self.states) - 1
        try:
            self.store.commit(checkpoint, cut, fate)
        except StateGoneError:
            self.log.forget()
        except StoreUnavailable:
            pass
        else:
            self.confirmed = cut
            if checkpoint.is_new:
                self.log.confirm()
            self.check_bounds()
            assert not self.checkpoints.take(0, ()).is_new

    def check_bounds(self) -> None:
        """Old changes do not pile up."""
        limit = 4 * self.log.live_bytes + SLACK_BYTES + 2 * self.largest_bytes
        assert self.log.log_bytes <= limit
        assert self.store.stored_bytes() <= 2 * limit + 200_000

    def kill(self) -> None:
        saved, cut = self.store.kill()
        self._start()
        if saved is not None:
            self.checkpoints.restore(cast(Any, _Found(saved)))
        assert cut >= self.confirmed
        assert self.state == self.states[cut]
        self.confirmed = cut


@dataclass
class _Found:
    saved: SavedState

    def segments(self) -> list[str]:
        return [self.saved.segment]

    def checkpoint(self, segment: str) -> SavedState:
        return self.saved
