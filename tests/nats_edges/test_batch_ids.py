"""How batches that come twice are recognized, and the names of keys on the broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torvyn.reactor.carriers.nats.batch_ids import BatchId
from torvyn.reactor.carriers.nats.names import token
from torvyn.reactor.carriers.nats.seen_batches import SeenBatches


@given(st.permutations(range(12)), st.lists(st.integers(0, 11)))
def test_each_batch_is_new_once_in_whatever_order_they_come(
    order: list[int], again: list[int]
) -> None:
    seen = SeenBatches()
    batches = [BatchId(0, "c", "g1", 0, 10 * number, 10) for number in range(12)]
    assert all(seen.add(batches[number]) for number in order)
    seen = SeenBatches.from_json(seen.to_json())
    assert not any(seen.add(batches[number]) for number in again)
    assert seen.to_json()["series"] == {"0.0": {"c": [[0, 119]]}}


@given(st.text())
def test_any_key_becomes_one_token_of_a_subject(key: str) -> None:
    made = token(key or "x")
    assert made
    assert not set(made) & set(". *>\t\r\n")
