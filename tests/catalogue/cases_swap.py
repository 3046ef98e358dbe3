"""One provocation for each code of a swap."""

from collections.abc import Callable
from pathlib import Path

import torvyn
from torvyn._contract.roles import Component
from torvyn._flow.plan_difference import compare
from torvyn._flow.swap import check_memory
from torvyn._flow.swap_checks import returned
from torvyn.testing import CollectingSink, CountingSource


class _Last(torvyn.Aggregator):
    """Keeps the last element."""

    def ingest(self, element: torvyn.Element) -> None:
        self.last = element.text


class _Saved(_Last):
    def snapshot(self) -> str:
        return self.last

    def restore(self, state: str) -> None:
        raise ValueError(f"{state} is too old")


def _upper() -> torvyn.Processor:
    return torvyn.processor(lambda element: element.text.upper())


def _running(stage: Component) -> torvyn.Flow:
    flow = torvyn.Flow().add("stage", stage)
    flow.feed("a")
    return flow


def _busy(_folder: Path) -> None:
    endless = torvyn.processor(lambda element: (str(number) for number in range(10**9)))
    flow = torvyn.Flow(CountingSource(5), endless)
    for _ in flow:
        flow.swap("processor", _upper(), timeout_s=0.01)


def _ended(_folder: Path) -> None:
    # The source has ended, and more waits behind it than the queues hold.
    flow = torvyn.Flow(["a", "b"], torvyn.processor(lambda element: [element.text] * 1000))
    for number, _ in enumerate(flow):
        if number == 500:
            flow.swap("source", CountingSource(1), discard_state=True)


def _graph_changed(_folder: Path) -> None:
    stages = [torvyn.processor(str) for _ in range(3)]
    plans = [torvyn.Flow(*stages[:count], CollectingSink()).plan for count in (2, 3)]
    compare(*plans, {}).refuse_graph("main")


def _no_memory(_folder: Path) -> None:
    flow = _running(_upper())
    assert flow._execution is not None
    check_memory(flow._execution.runners[0], 64 << 20, 60 << 20)


def _node_unknown(_folder: Path) -> None:
    _running(_upper()).swap("stages", _upper())


def _not_running(_folder: Path) -> None:
    torvyn.Flow().add("stage", _upper()).swap("stage", _upper())


def _returned(_folder: Path) -> None:
    flow = _running(_upper())
    flow.swap("stage", torvyn.processor(lambda element: 1 / 0))
    flow.feed("b")
    raise returned("stage", flow.swaps[-1].error)


def _state_lost(_folder: Path) -> None:
    _running(_Last()).swap("stage", _Last())


def _state_refused(_folder: Path) -> None:
    _running(_Saved()).swap("stage", _Saved())


def _unfit(_folder: Path) -> None:
    _running(_upper()).swap("stage", torvyn.filter(lambda element: True))


CASES: dict[str, Callable[[Path], object]] = {
    "swap.busy": _busy,
    "swap.ended": _ended,
    "swap.graph-changed": _graph_changed,
    "swap.no-memory": _no_memory,
    "swap.node-unknown": _node_unknown,
    "swap.not-running": _not_running,
    "swap.returned": _returned,
    "swap.state-lost": _state_lost,
    "swap.state-refused": _state_refused,
    "swap.unfit": _unfit,
}
