"""A program: starts many flows of one Plan, waits until all of them wait; prints what they take.

    python -m benches.live_flows token-streaming|edge-gateway COUNT

`many_flows` runs it once for each pipeline, in the environment that `allocator` asks for.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from benches import work
from benches.allocator import measured_builds
from benches.machine import resident_bytes

EXAMPLES = Path(__file__).parents[1] / "examples"
STAGES = ("sensor-source", "anomaly-detector", "data-enricher", "local-aggregator", "uplink-sink")
READINGS = 450
"""The gateway sends a window per 100 readings, and the rest at the end."""
PATIENCE_S = 600

Make = Callable[[int], Any]
"""Makes the flow with this number, not started."""
Wait = Callable[[list[Any]], None]
"""Returns when all of them wait."""


def main() -> None:
    name, count = sys.argv[1], int(sys.argv[2])
    answer, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115 - for the example's prints
    pipelines = {"token-streaming": _token_streaming, "edge-gateway": _edge_gateway}
    with pipelines[name](count) as (make, wait_until_parked):
        figures = _measure(count, make, wait_until_parked)
    json.dump(figures, answer)
    answer.flush()
    # Tens of thousands of guests need not be taken down one by one.
    os._exit(0)


def _measure(
    count: int, make: Make, wait_until_parked: Callable[[list[Any]], None]
) -> dict[str, Any]:
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    with measured_builds() as built:
        flows = [make(number) for number in range(count)]
        for flow in flows:
            flow.start()
    wait_until_parked(flows)
    took_s = time.perf_counter() - began
    gc.collect()
    memory = [flow.memory() for flow in flows]
    return {
        "flows": count,
        "nodes": len(flows[0].statistics.nodes),
        "state_bytes_max": max(each["state_bytes"] for each in memory),
        "state_bytes_median": statistics.median(each["state_bytes"] for each in memory),
        "queue_bytes_max": max(each["queue_bytes"] for each in memory),
        "allocated_bytes": statistics.median(built),
        "rss_bytes_per_flow": (resident_bytes() - before) / count,
        "start_s": took_s,
    }


@contextmanager
def _token_streaming(count: int) -> Iterator[tuple[Make, Wait]]:
    """The example, with a source that waits in the middle of a sentence."""
    import torvyn
    from benches.timed_components import Arrivals, ParkedSource
    from torvyn import Flow
    from torvyn._link.plan import ComponentRef

    plan = torvyn.load(EXAMPLES / "token-streaming" / "Torvyn.toml").plan("main")
    source, *others = plan.nodes
    arrivals = Arrivals(count)

    def make(_number: int) -> Any:
        parked = ParkedSource(work.SEED_TOKENS[3:13], arrivals)
        component = ComponentRef("object", "source", "", instance=parked)
        return Flow.from_plan(replace(plan, nodes=(replace(source, component=component), *others)))

    def wait_until_parked(_flows: list[Any]) -> None:
        if not arrivals.all_here.wait(PATIENCE_S):
            raise AssertionError(f"{arrivals.left} of {count} flows do not wait")

    yield make, wait_until_parked


@contextmanager
def _edge_gateway(count: int) -> Iterator[tuple[Make, Wait]]:
    """The example without a collector: windows are on the disk, and the uplink waits."""
    import torvyn
    from torvyn import Flow
    from torvyn._sandbox.build import build
    from torvyn._sandbox.project import GuestProject

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "edge-gateway"
        kept = shutil.ignore_patterns(
            "build", "python", "*.csv", "*.jsonl", ".torvyn", "__pycache__"
        )
        shutil.copytree(EXAMPLES / "edge-gateway", folder, ignore=kept)
        for stage in STAGES:
            build(GuestProject(stage, folder / "components" / "c" / stage, "c"))
        write_rows = runpy.run_path(str(folder / "fetch_data.py"))["write_rows"]
        (folder / "data").mkdir(exist_ok=True)
        write_rows(folder / "data" / "shuttle.csv", READINGS)
        os.environ["READINGS"] = str(folder / "data")
        os.chdir(folder)
        plan = torvyn.load(folder / "Torvyn.toml").plan("main")

        def make(number: int) -> Any:
            return Flow.from_plan(replace(plan, name=f"gateway-{number}"))

        yield make, _wait_for_windows


def _wait_for_windows(flows: list[Any]) -> None:
    until = time.perf_counter() + PATIENCE_S
    for flow in flows:
        while flow.statistics.nodes["aggregator"].received < READINGS:
            if time.perf_counter() > until or flow.error is not None:
                raise AssertionError(f"a gateway does not run: {flow.error}")
            time.sleep(0.01)


if __name__ == "__main__":
    main()
