"""What an aggregator still holds is not acknowledged, whatever else it has sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn import PENDING, Element, Signal
from torvyn.components import Batcher, Join
from torvyn.errors import FlowError
from torvyn.testing import CollectingSink, idle, run_flow


class OpenSource(torvyn.Source):
    """Sends its items and stays open; counts acknowledgements."""

    def __init__(self, *items: str) -> None:
        super().__init__()
        self.items = list(items)
        self.acknowledged = 0

    def pull(self) -> Any:
        return self.items.pop(0) if self.items else PENDING

    def acknowledge(self, count: int) -> None:
        self.acknowledged += count


class Latest(torvyn.Aggregator):
    """Sends each element when the next one comes."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def ingest(self, element: Element) -> str | None:
        self.texts.append(element.text)
        return self.texts.pop(0) if len(self.texts) > 1 else None

    def flush(self) -> list[str]:
        return self.texts

    def held_elements(self) -> int:
        return len(self.texts)


class ThreadLatest(Latest):
    run = "thread"


class AsyncLatest(Latest):
    async def ingest(self, element: Element) -> str | None:  # type: ignore[override]
        return Latest.ingest(self, element)


def settled(source: OpenSource, aggregator: Any, **options: Any) -> int:
    """How many elements are acknowledged when nothing moves any more."""
    flow = torvyn.Flow()
    flow.add("in", source)
    flow.add("collect", aggregator, **options)
    flow.add("out", CollectingSink())
    flow.connect("in", "collect").connect("collect", "out")
    run_flow(flow, until=idle)
    return source.acknowledged


def test_a_batch_of_one_key_does_not_settle_those_of_other_keys() -> None:
    items = [json.dumps({"key": key}) for key in "abbbbcc"]
    # `a` is the oldest of all, and waits.
    assert settled(OpenSource(*items), Batcher({"size": 2}), key="key") == 0
    assert settled(OpenSource(*items[1:]), Batcher({"size": 2}), key="key") == 6


def test_a_pair_does_not_settle_elements_that_wait_for_a_partner() -> None:
    flow, left, right = torvyn.Flow(), OpenSource(), OpenSource()
    left.items = ['{"at": 0}', '{"at": 100}']
    right.items = ['{"at": 100}', '{"at": 200}']
    flow.add("left", left).add("right", right)
    flow.add("join", Join({"within": "1s", "time": "at", "mode": "outer"}))
    flow.add("out", out := CollectingSink())
    flow.connect("left", "join:left").connect("right", "join:right").connect("join", "out")
    run_flow(flow, until=idle)
    # The pair at 100 waits for more partners; only the left element at 0 can have none.
    assert len(out.texts) == 2
    assert (left.acknowledged, right.acknowledged) == (1, 0)


@pytest.mark.parametrize("make", [Latest, ThreadLatest, AsyncLatest])
def test_an_aggregator_in_any_run_mode_says_what_it_holds(make: Any) -> None:
    assert settled(OpenSource("a", "b", "c"), make()) == 2


def test_an_output_that_is_not_accepted_holds_back_what_may_be_in_it() -> None:
    """The sink `away` accepts one element and pauses; `up` accepts all of them."""
    source = OpenSource(*(json.dumps({"key": key}) for key in "bbabba"))
    flow = torvyn.Flow()
    flow.add("in", source).add("batch", Batcher({"size": 2}), key="key")
    flow.add("route", torvyn.router(lambda e: "up" if '"a"' in e.text else "away", ("up", "away")))
    flow.add("up", up := CollectingSink()).add("away", torvyn.sink(lambda e: Signal.PAUSE))
    flow.connect("in", "batch").connect("batch", "route")
    flow.connect("route:up", "up").connect("route:away", "away")
    run_flow(flow, until=idle)
    # `a` was taken before the second pair of `b`, which nobody has accepted.
    assert (len(up.texts), source.acknowledged) == (1, 2)


def test_an_aggregator_that_drops_elements_settles_them() -> None:
    dropping = torvyn.aggregator(lambda element: None, held_elements=lambda: 0)
    assert settled(OpenSource("a", "b"), dropping) == 2


# Flows that would lose elements are refused


class Silent(torvyn.Aggregator):
    def ingest(self, element: Element) -> None:
        pass


class Stateful(Silent):
    def snapshot(self) -> list[str]:
        return []

    def restore(self, state: list[str]) -> None:
        pass


class Position(torvyn.Source):
    def pull(self) -> None:
        return None

    def snapshot(self) -> int:
        return 0

    def restore(self, state: int) -> None:
        pass


@pytest.fixture(autouse=True)
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORVYN_RUNTIME__STATE_DIR", str(tmp_path))


def refusal(source: Any, *between: Any, **options: Any) -> FlowError:
    flow = torvyn.Flow(source, *between, torvyn.sink(print), **options)
    with pytest.raises(FlowError) as caught:
        flow.run()
    assert caught.value.code == "durable.unsafe-aggregator"
    return caught.value


def test_an_aggregator_must_say_what_it_holds_if_its_source_forgets() -> None:
    error = refusal(OpenSource("a"), Silent())
    assert (error.node, str(error.hint).split(":")[0]) == ("aggregator", "define `held_elements()`")
    assert "source `source` was told to forget" in str(error)


def test_an_aggregator_with_a_state_needs_checkpoints() -> None:
    assert 'checkpoint = "1s"' in str(refusal(OpenSource("a"), Stateful()).hint)
    flow = torvyn.Flow(OpenSource(), Stateful(), torvyn.sink(print), checkpoint_s=1.0)
    run_flow(flow, until=idle)


def test_an_aggregator_is_saved_with_the_position_of_its_source() -> None:
    error = refusal(Position(), Latest(), checkpoint_s=1.0)
    assert "its source continues behind them" in str(error)


def test_an_edge_on_the_disk_forgets_as_well() -> None:
    flow = torvyn.Flow()
    flow.add("in", torvyn.source(["a"])).add("collect", Silent()).add("out", torvyn.sink(print))
    flow.connect("in", "collect", carrier="disk").connect("collect", "out")
    with pytest.raises(FlowError, match="what the edge `in:output->collect` was told to forget"):
        flow.run()


def test_a_source_that_nobody_waits_for_may_have_any_aggregator() -> None:
    assert torvyn.Flow(["a"], Silent(), torvyn.sink(print)).run().state == "completed"
