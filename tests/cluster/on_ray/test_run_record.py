"""The runs of a flow on the broker: an interrupted one is continued, a fresh one discards."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

import torvyn
from torvyn._cluster.session import RunRecord, begin_run, end_run
from torvyn._durable.nats.names import FlowNames
from torvyn._io.jetstream import BrokerThread, Entries
from torvyn._link.plan import Plan

pytestmark = pytest.mark.timeout(120)


class Endless(torvyn.Source):
    sent = 0

    def pull(self) -> str:
        self.sent += 1
        return str(self.sent)

    def snapshot(self) -> int:
        return self.sent

    def restore(self, state: int) -> None:
        self.sent = state


@pytest.fixture
def flow(nats: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a flow whose sink collects what it gets, and drains the flow after so many."""
    monkeypatch.setenv("TORVYN_CLUSTER__NATS", nats)

    def make(got: list[str], limit: int = 0) -> torvyn.Flow:
        def take(element: torvyn.Element) -> None:
            got.append(element.text)
            if len(got) == limit:
                made.drain()

        made = torvyn.Flow(name="main").add("a", Endless()).add("b", torvyn.sink(take))
        return made.connect("a", "b", carrier="nats")

    return make


@pytest.fixture
def plan(flow: Any) -> Plan:
    made: Plan = flow([]).plan
    return made


def test_a_run_is_open_until_it_is_ended(plan: Plan, nats: str) -> None:
    first = begin_run(plan, nats)
    assert begin_run(plan, nats) == first

    end_run(plan, nats, first)

    assert begin_run(plan, nats) != first


def first_of_next(flow: Any) -> int:
    """The first number that the sink gets in another run, which is interrupted then."""
    got: list[str] = []
    flow(got, 50).run()
    return int(got[0])


def test_a_fresh_run_discards_states_and_elements(flow: Any, plan: Plan, nats: str) -> None:
    first = begin_run(plan, nats)
    assert first_of_next(flow) == 1
    assert first_of_next(flow) > 1

    assert begin_run(plan, nats, is_fresh=True) != first

    assert first_of_next(flow) == 1


def test_a_discard_that_was_interrupted_is_finished(flow: Any, plan: Plan, nats: str) -> None:
    first_of_next(flow)
    broker = BrokerThread(nats, "main")
    entries = Entries(broker.broker, broker.publisher, FlowNames.of(plan).bucket)
    broken = RunRecord("r", is_open=True, discards=True)
    broker.call(entries.put("run", json.dumps(asdict(broken)).encode()))
    broker.close()

    assert begin_run(plan, nats) == "r"

    assert first_of_next(flow) == 1
