"""The test kit: small parts, a clock moved by hand, and `run_flow`.

    def test_slow_sink_stops_the_source():
        source, sink = CountingSource(), StallingSink(after=100)

        run_flow(source, sink, capacity=16, until=idle)

        # 100 taken by the sink, 16 waiting in the queue, 1 in the sink's hand.
        assert source.sent == 100 + 16 + 1

Nothing here is faked: the flows run in the reactor that runs them in production.
"""

from torvyn.testing.account import check_account
from torvyn.testing.clock import Clock
from torvyn.testing.component_variants import VARIANTS, WASM, as_variant
from torvyn.testing.components import CollectingSink, CountingSource, ScriptedSource, StallingSink
from torvyn.testing.conformance import (
    check,
    check_aggregator,
    check_filter,
    check_processor,
    check_router,
    check_sink,
    check_source,
)
from torvyn.testing.flow_run import FlowRun, Until, done, idle, run_flow

__all__ = [
    "VARIANTS",
    "WASM",
    "Clock",
    "CollectingSink",
    "CountingSource",
    "FlowRun",
    "ScriptedSource",
    "StallingSink",
    "Until",
    "as_variant",
    "check",
    "check_account",
    "check_aggregator",
    "check_filter",
    "check_processor",
    "check_router",
    "check_sink",
    "check_source",
    "done",
    "idle",
    "run_flow",
]
