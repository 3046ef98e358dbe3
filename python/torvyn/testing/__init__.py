"""The test kit: small components, a manual clock, and `run_flow`.

    def test_slow_sink_stops_the_source():
        source, sink = CountingSource(), StallingSink(after=100)

        run_flow(source, sink, capacity=16, until=idle)

        # 100 in the sink, 16 waiting in the queue, 1 that the sink is working on.
        assert source.sent == 100 + 16 + 1

_flow_run         `run_flow`, and a clock that moves when a test moves it
_components       sources that count or follow a script, sinks that collect or stall
_checks           checks that a component fits its role, and that every element is accounted for
_variants         the same component on a thread, on a loop or in native code
_sandbox_variant  the same component in the sandbox
_guest_app        what runs inside its guest
_rebuild_source   a component from its source, inside the guest

Nothing here is faked: the flows run in the reactor that runs them in production.
"""

from torvyn._link.component_library import instantiate
from torvyn.testing._checks import (
    check,
    check_account,
    check_aggregator,
    check_filter,
    check_processor,
    check_router,
    check_sink,
    check_source,
)
from torvyn.testing._components import CollectingSink, CountingSource, ScriptedSource, StallingSink
from torvyn.testing._flow_run import Clock, FlowRun, Until, done, idle, run_flow
from torvyn.testing._variants import VARIANTS, WASM, as_variant

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
