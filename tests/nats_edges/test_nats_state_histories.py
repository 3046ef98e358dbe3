"""A crash at any point restores this cut or the one before, and the same cut may be saved again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from entry_faults import FaultyEntries
from scale import sample

from nats_server import NatsServer
from state_histories import SEGMENT, Fate, StateHistory
from torvyn._durable.nats.entry import SegmentEntry
from torvyn._durable.state_log import Checkpoint, SavedState
from torvyn._io.jetstream import BrokerThread

KEY = "in.0"


class OnBroker:
    """An entry whose writes fail before or after the broker has stored them. `payload`: the most
    bytes of a message."""

    def __init__(self, broker: BrokerThread, dice: random.Random, payload: int) -> None:
        self.broker, self.dice, self.payload = broker, dice, payload
        self.entries = FaultyEntries(broker.broker, broker.publisher, "tv_main")
        broker.call(self.entries.open())
        self._take_over()

    def _take_over(self) -> None:
        self.entries.fail_at = None
        self.entry = SegmentEntry(self.entries, SEGMENT, KEY, self.payload)
        self.broker.call(self.entry.take_over())

    def commit(self, checkpoint: Checkpoint, cut: int, fate: Fate) -> None:
        if fate != "stored":
            self.entries.fail(self.dice.randrange(5), is_stored=fate == "unconfirmed")
        saved = replace(self.entry.saved.with_change(checkpoint), next={"cut": cut})
        self.broker.call(self.entry.save(saved))
        self.entries.fail_at = None

    def kill(self) -> tuple[SavedState | None, int]:
        self._take_over()
        return self.entry.state, self.entry.saved.next.get("cut", 0)

    def stored_bytes(self) -> int:
        entries = self.broker.call(self.entries.keys(f"{KEY}.state.>"))
        return sum(len(self.broker.call(self.entries.get(name)).value) for name in entries)


@pytest.mark.promise("edge.saved-states")
@pytest.mark.parametrize("payload", [4_000, 1 << 20])
def test_a_kill_restores_the_last_cut_that_was_stored(server: NatsServer, payload: int) -> None:
    for seed in range(sample(5, full=100)):
        broker = BrokerThread(server.url, "main")
        dice = random.Random(seed)
        store = OnBroker(broker, dice, payload)
        broker.call(store.entry.delete())
        store = OnBroker(broker, dice, payload)
        StateHistory(store, dice).go(40)
        broker.close()
