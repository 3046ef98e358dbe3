"""Several `disk` edges into one segment: no two elements have the same identity."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path
from typing import Any

from durable_parts import AckSource, GatedSink, check_account, wait_until

import torvyn
from torvyn._durable.backend import LogOptions
from torvyn._durable.disk.store import DurableStore
from torvyn.components import SQLiteSink as SQLite
from torvyn.components.http.batch_body import BodyEncoder

COUNT = 200


def joined(sources: dict[str, AckSource], sink: Any) -> torvyn.Flow:
    """Sources whose `disk` edges lead to one node, which a sink follows in memory."""
    flow = torvyn.Flow(name="main")
    for name, source in sources.items():
        flow.add(name, source)
    flow.add("join", torvyn.processor(lambda element: element.text))
    flow.add("out", sink)
    for name in sources:
        flow.connect(name, "join", carrier="disk")
    flow.connect("join", "out")
    return flow


def records(name: str) -> list[str]:
    return [f'{{"source": "{name}", "n": {number}}}' for number in range(COUNT)]


def sources(*names: str) -> dict[str, AckSource]:
    return {name: AckSource(records(name)) for name in names}


def identities(sink: GatedSink) -> list[tuple[str, int]]:
    return [(e.context.epoch, e.sequence) for e in sink.elements if e.context is not None]


def interrupt(names: tuple[str, ...], sink: GatedSink) -> None:
    """Everything is durable, and a part of it delivered, when the run is cancelled."""
    made = sources(*names)
    flow = joined(made, sink).start()
    assert sink.is_blocked.wait(20)
    wait_until(lambda: all(source.acknowledged == COUNT for source in made.values()))
    flow.cancel()
    sink.gate.set()
    flow.wait()


def test_elements_of_two_edges_have_different_identities() -> None:
    sink = GatedSink(free=10**9)
    flow = joined(sources("a", "b"), sink)

    flow.run()

    assert sorted(sink.texts) == sorted(records("a") + records("b"))
    assert len({*identities(sink)}) == 2 * COUNT
    check_account(flow)


def test_a_sink_that_stores_once_stores_the_elements_of_both_edges(tmp_path: Path) -> None:
    path = tmp_path / "stored.db"

    joined(sources("a", "b"), SQLite({"path": str(path), "once": True})).run()

    with sqlite3.connect(path) as database:
        stored = database.execute("SELECT source, n FROM elements").fetchall()
    assert sorted(stored) == [(name, number) for name in "ab" for number in range(COUNT)]


def test_requests_with_elements_of_both_edges_have_keys_of_their_own() -> None:
    sink = GatedSink(free=10**9)
    joined(sources("a", "b"), sink).run()
    by_source = [[e for e in sink.elements if f'"{name}"' in e.text] for name in "ab"]
    a, b = by_source
    encoder = BodyEncoder("ndjson", "dev", gzip=False, max_count=100, max_bytes=10**6)

    # The same first and last elements, and others between them.
    batches = [a[:3], b[:3], [a[0], b[0], a[2]], [a[0], b[0], b[1], a[2]]]
    keys = [encoder.body(batch, [*map(encoder.payload, batch)]).key for batch in batches]
    again = [b[0], b[1], a[0], a[2]]

    assert len({*keys}) == len(batches)
    assert encoder.body(again, [*map(encoder.payload, again)]).key == keys[-1]


def test_an_element_keeps_its_identity_in_the_next_run() -> None:
    first, later = GatedSink(free=150), GatedSink(free=10**9)
    interrupt(("a", "b"), first)

    joined({"a": AckSource([]), "b": AckSource([])}, later).run()

    by_identity: dict[tuple[str, int], str] = {}
    for sink in (first, later):
        for identity, text in zip(identities(sink), sink.texts, strict=True):
            assert by_identity.setdefault(identity, text) == text
    assert sorted(by_identity.values()) == sorted(records("a") + records("b"))


def test_another_edge_changes_no_identity_of_those_that_there_were() -> None:
    first, later = GatedSink(free=150), GatedSink(free=10**9)
    interrupt(("b", "c"), first)

    joined({**sources("a"), "b": AckSource([]), "c": AckSource([])}, later).run()

    assert sorted({*first.texts, *later.texts}) == sorted(itertools.chain(*map(records, "abc")))
    # What was delivered twice has one identity.
    assert len({*identities(first), *identities(later)}) == 3 * COUNT


def test_each_log_is_settled_up_to_its_own_end(state_dir: Path) -> None:
    joined(sources("a", "b"), GatedSink(free=10**9)).run()

    logs = {f"{name}:output->join": LogOptions(2**28, None, "block") for name in "ab"}
    with DurableStore.open(state_dir / "main" / "flow.db", logs) as store:
        ends = [(store.acknowledged(log), store.next_sequence(log)) for log in logs]
    assert ends == [(COUNT - 1, COUNT)] * 2
