"""The entry of a segment on the broker: whole at every moment, and of one owner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from entry_faults import FaultyEntries

from nats_server import NatsServer
from torvyn._durable.nats.entry import HEAD_BYTES, Saved, SegmentEntry
from torvyn._durable.state_log import Checkpoint, decode_change
from torvyn._io.jetstream import BrokerThread
from torvyn._io.nats import BrokerUnavailable, Message
from torvyn.errors import FlowError

PART = 1000
"""The bytes of a part: entries with more are split."""


class Bucket:
    """Entries of a bucket, whose writes can fail."""

    def __init__(self, broker: BrokerThread) -> None:
        self.broker = broker
        self.entries = FaultyEntries(broker.broker, broker.publisher, "tv_t_main")
        broker.call(self.entries.open())

    def entry(self) -> SegmentEntry:
        return SegmentEntry(self.entries, "a", "a.0", HEAD_BYTES + PART)

    def owned(self) -> SegmentEntry:
        entry = self.entry()
        self.broker.call(entry.take_over())
        return entry

    def save(self, entry: SegmentEntry, state: bytes) -> None:
        self.broker.call(entry.save(with_state(entry.saved, state)))

    def stored(self) -> bytes:
        entry = self.entry()
        self.broker.call(entry.take_over())
        return state_of(entry)

    def parts(self) -> int:
        """What there is beside the entry."""
        names = ("a.0.part.>", "a.0.state.>")
        return sum(len(self.broker.call(self.entries.keys(name))) for name in names)


def with_state(saved: Saved, state: bytes) -> Saved:
    return saved.with_change(Checkpoint.whole("a", "{}", {("a", "#0"): state}))


def state_of(entry: SegmentEntry) -> bytes:
    assert entry.state is not None
    return entry.state.parts["a", "#0"]


@pytest.fixture
def bucket(server: NatsServer) -> Iterator[Bucket]:
    broker = BrokerThread(server.url, "main")
    yield Bucket(broker)
    broker.close()


@pytest.mark.parametrize("size", [10, 5 * PART])
def test_a_segment_is_saved_whatever_its_size(bucket: Bucket, size: int) -> None:
    state, outbox = os.urandom(size), [Message("s", b"body", {"Nats-Msg-Id": "x"})]
    first = bucket.owned()
    for _ in range(3):
        saved = replace(with_state(first.saved, state), outbox=outbox)
        bucket.broker.call(first.save(saved))
    entry = bucket.entry()
    found = bucket.broker.call(entry.take_over())
    assert (state_of(entry), found.outbox) == (state, outbox)


def test_only_the_last_owner_of_a_segment_can_save_it(bucket: Bucket) -> None:
    first, second = bucket.owned(), bucket.owned()
    with pytest.raises(FlowError, match="another process"):
        bucket.save(first, b"")
    bucket.save(second, b"")


def test_a_deleted_entry_is_not_written_again_by_its_owner(bucket: Bucket) -> None:
    first = bucket.owned()
    bucket.broker.call(bucket.entries.delete("a.0"))
    second = bucket.owned()
    # What the first one has sent may still wait, under its number.
    assert second.saved.generation > first.saved.generation
    with pytest.raises(FlowError, match="another process"):
        bucket.save(first, b"")


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_moment_leaves_a_whole_entry(bucket: Bucket, seed: int) -> None:
    rng = random.Random(seed)
    entry = bucket.owned()
    possible = [os.urandom(rng.choice([10, 3 * PART]))]
    bucket.save(entry, possible[0])
    for _ in range(rng.randint(1, 4)):
        possible.append(os.urandom(rng.choice([10, 3 * PART, 4 * PART])))
        bucket.entries.fail(rng.randint(0, 4), is_stored=rng.random() < 0.5)
        with contextlib.suppress(BrokerUnavailable):
            bucket.save(entry, possible[-1])
            possible = possible[-1:]
    bucket.entries.fail_at = None
    assert bucket.stored() in possible


def test_after_a_lost_confirmation_the_next_content_is_the_one_that_is_stored(
    bucket: Bucket,
) -> None:
    entry = bucket.owned()
    bucket.entries.fail(0, is_stored=True)
    with pytest.raises(BrokerUnavailable):
        bucket.save(entry, b"first")
    bucket.save(entry, b"second")
    assert bucket.stored() == b"second"


def test_parts_of_earlier_entries_are_deleted(bucket: Bucket) -> None:
    entry = bucket.owned()
    for size in (5, 3, 7):
        bucket.save(entry, bytes(size * PART - 500))
        assert bucket.parts() == size
    again = bucket.owned()
    assert bucket.parts() == 7
    bucket.save(again, b"small")
    assert bucket.parts() == 0


def test_what_a_crash_left_is_deleted_by_the_next_owner(bucket: Bucket) -> None:
    entry = bucket.owned()
    bucket.entries.fail(3, is_stored=False)
    with pytest.raises(BrokerUnavailable):
        bucket.save(entry, bytes(4 * PART))
    assert bucket.parts() == 3
    bucket.owned()
    assert bucket.parts() == 0


def test_of_many_owners_at_once_one_is_left_and_the_entry_is_whole(bucket: Bucket) -> None:
    state = os.urandom(5 * PART)
    bucket.save(bucket.owned(), state)
    contenders = [bucket.entry() for _ in range(8)]

    async def contend() -> None:
        await asyncio.gather(*(each.take_over() for each in contenders))

    bucket.broker.call(contend())
    outcomes = []
    for each in contenders:
        try:
            bucket.broker.call(each.check())
            outcomes.append(state_of(each))
        except FlowError:
            pass
    assert outcomes == [state]
    assert bucket.stored() == state


def test_a_damaged_entry_is_named_and_can_be_discarded(bucket: Bucket) -> None:
    damaged = bucket.owned()
    bucket.save(damaged, bytes(3 * PART))
    bucket.broker.call(bucket.entries.delete_before("a.0.part.>", 1_000_000))
    with pytest.raises(FlowError, match=r"parts of what `a.0` has saved are missing"):
        bucket.stored()
    entry = bucket.entry()
    fresh = bucket.broker.call(entry.take_over(is_fresh=True))
    assert (entry.state, fresh.tail, fresh.generation) == (None, (), damaged.saved.generation)


def test_an_entry_comes_back_as_it_was() -> None:
    saved = replace(Saved.new(), inputs={"e": {"position": 3}})
    saved = with_state(saved, b"\n{}")
    assert Saved.decode(saved.encode()) == replace(saved, tail=[*saved.tail], outbox=[], ranges=[])


def test_an_entry_of_an_earlier_version_is_read() -> None:
    """It has the states of all nodes as a whole."""
    head = {"v": 1, "series": "c1", "run": "r", "shape": "{}", "states": {"a": 3, "b": 0}}
    rest = {"outbox": [["s", "id", 4]], "inputs": {}, "next": {}, "sent": {}}
    saved = Saved.decode(json.dumps({**head, **rest}).encode() + b"\nx\nybody")
    [(number, change)] = saved.tail
    assert dict(decode_change(change)) == {("a", "#0"): b"x\ny", ("b", "#0"): b""}
    assert (saved.first, saved.number, number, saved.outbox[0].body) == (1, 1, 1, b"body")
