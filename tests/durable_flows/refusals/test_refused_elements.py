"""What a sink refuses for good is set aside, and everything behind it goes on: each built-in sink,
each kind of refusal, at each place of a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from durable_parts import AckSource, wait_until
from refusing_peers import ACCEPT_EVERYTHING, PEERS, Modbus, Peer, connected, reading
from scale import sample

import torvyn
from torvyn._durable.dead_letters import FILE, DeadLetterStore
from torvyn._link.component_library import instantiate
from torvyn._link.plan import ComponentRef
from torvyn._native import EdgeLog
from torvyn.components import BUILTINS, SINKS
from torvyn.components.http.uplink import UNKNOWN_IN_A_ROW
from torvyn.testing import ScriptedSource, check_account

COUNT = 12
PLACES = {
    "first": {0},
    "last": {COUNT - 1},
    "in the middle": {5},
    "neighbours": {4, 5, 6},
    "each second": set(range(0, COUNT, 2)),
    "all but one": set(range(COUNT)) - {7},
    "all": set(range(COUNT)),
}
KINDS = [(peer, kind) for peer in PEERS for kind in peer.refusals]
NAMES = [f"{peer.component}-{kind}" for peer, kind in KINDS]
HTTP = next(peer for peer in PEERS if peer.component == "http")


def letters_of(folder: Path) -> tuple[DeadLetterStore, list[tuple[str, int | None, bytes]]]:
    store = DeadLetterStore(folder / "main" / FILE)
    found = [
        (each.node, each.sequence, EdgeLog.decode(each.body)[0][3])
        for each in store.read(store.letters())
    ]
    return store, found


def payload(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def sink_of(peer: Peer) -> Any:
    target = SINKS.get(peer.component) or BUILTINS[peer.component]
    component: Any = instantiate(ComponentRef("builtin", peer.component, target))
    component.config = json.dumps(peer.config)
    return component


def flow_to(peer: Peer, items: list[str | bytes]) -> tuple[torvyn.Flow, AckSource]:
    source = AckSource(items)
    flow = torvyn.Flow(name="main")
    flow.add("in", source)
    flow.add("out", sink_of(peer), config=json.dumps(peer.config))
    flow.connect("in", "out", carrier="disk", max_bytes="64MiB")
    return flow, source


@pytest.mark.parametrize("places", sample(["in the middle"], full=list(PLACES)))
@pytest.mark.parametrize(("peer", "kind"), KINDS, ids=NAMES)
def test_elements_are_delivered_or_dead_letters_and_nothing_else(
    peer: type[Peer], kind: str, places: str, tmp_path: Path, state_dir: Path
) -> None:
    # With 404 for the first element, or for too many in a row, it would be the path that is wrong.
    bad = {n for n in PLACES[places] if kind != "404" or 0 < n <= UNKNOWN_IN_A_ROW}
    make = peer.refusals[kind]
    items: list[str | bytes] = [make(n) if n in bad else reading(n) for n in range(COUNT)]
    with connected(peer, tmp_path, kind) as other:
        flow, source = flow_to(other, items)
        statistics = flow.run()

        check_account(statistics)
        node = statistics.nodes["out"]
        assert (node.passed, node.dead_lettered, node.failed) == (COUNT - len(bad), len(bad), 0)
        assert (statistics.set_aside, source.acknowledged) == (len(bad), COUNT)
        store, letters = letters_of(state_dir)
        assert [data for _, _, data in letters] == [payload(make(n)) for n in sorted(bad)]
        assert {node for node, _, _ in letters} <= {"out"}
        counts = store.nodes()
        assert [each.set_aside for each in counts] == [len(bad)] * bool(bad)
        if peer is not Modbus:
            good = [n for n in range(COUNT) if n not in bad]
            wait_until(lambda: len(other.delivered()) >= len(good))
            assert other.delivered() == good


def test_every_built_in_sink_is_asked() -> None:
    sinks = set(SINKS) | {
        name
        for name, target in BUILTINS.items()
        if issubclass(type(instantiate(ComponentRef("builtin", name, target))), torvyn.Sink)
    }
    assert sinks == {peer.component for peer in PEERS} | ACCEPT_EVERYTHING


@pytest.mark.parametrize(
    "status", sample([401, 302], full=[401, 403, 405, 407, 408, 425, 429, 500, 503, 302])
)
def test_what_says_nothing_about_the_elements_waits(
    status: int, tmp_path: Path, state_dir: Path
) -> None:
    with connected(HTTP, tmp_path, "400") as other:
        other.server.answer(*[status] * 2)  # type: ignore[attr-defined]
        flow, source = flow_to(other, [reading(0)])
        statistics = flow.run()

        assert (statistics.set_aside, source.acknowledged) == (0, 1)
        assert other.delivered() == [0]
    assert letters_of(state_dir)[1] == []


def test_letters_go_back_to_their_node_while_the_flow_runs(tmp_path: Path, state_dir: Path) -> None:
    with connected(HTTP, tmp_path, "422") as other:
        make = HTTP.refusals["422"]
        gate = ScriptedSource([make(0), reading(1), make(2), torvyn.PENDING])
        flow = torvyn.Flow(name="main")
        flow.add("in", gate)
        flow.add("out", sink_of(other), config=json.dumps(other.config))
        flow.connect("in", "out", carrier="disk")
        flow.start()
        try:
            wait_until(lambda: flow.statistics.set_aside == 2)
            store, _ = letters_of(state_dir)
            assert store.retry(store.letters()) == 2
            other.server.rejects = lambda body: None  # type: ignore[attr-defined]
            wait_until(lambda: flow.statistics.nodes["out"].passed == 3)
            wait_until(lambda: not store.letters())
            check_account(flow.statistics)
        finally:
            flow.cancel()
            flow.wait()
    assert other.delivered() == [1, 0, 2]
    (account,) = store.nodes()
    assert (account.set_aside, account.returned, account.waiting) == (2, 2, 0)
