"""The test kit: small components, a manual clock, and `run_flow`.

    def test_slow_sink_stops_the_source():
        source, sink = CountingSource(), StallingSink(after=100)

        run_flow(source, sink, capacity=16, until=idle)

        # 100 in the sink, 16 waiting in the queue, 1 that the sink is working on.
        assert source.sent == 100 + 16 + 1

flow_run              `run_flow`
components            sources that count or follow a script, sinks that collect or stall
clock                 a clock that moves when a test moves it
account               checks that every element is accounted for
conformance           checks that a component fits its role
component_variants    the same component on a thread, on a loop or in native code
sandbox_variant       the same component in the sandbox
universal_guest       the guest that runs any component of a test
guest_app             what runs inside that guest
serialized_component  a component as text
rebuild_source        a component from that text

Nothing here is faked: the flows run in the reactor that runs them in production.
"""

from torvyn._link.component_library import instantiate
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
    "instantiate",
    "run_flow",
]
