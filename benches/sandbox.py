"""What does a call into a sandboxed component cost?

    python -m benches.sandbox [--rounds R] [--json]

One filter call that reads its payload: as a stage of a flow, as a raw typed call in Rust, and
through the PyPI binding. Then source, processor and sink as three guests of one flow.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benches.harness import quartiles
from benches.peers import distribution_version
from benches.peers.wasmtime_binding import filter_call
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

ROOT = Path(__file__).parent.parent
GUESTS = ROOT / "tests" / "sandbox" / "guests"
PAYLOAD = b"hello world"
ELEMENTS = 100_000
"""The number of elements that the guest `stream` sends."""
BINDING_CALLS = 2_000
METHOD = """\
Guests are small hand-written modules, encoded as components. A call is one `evaluate` that copies
its payload of {size} bytes into the guest. Rust figures are medians of nine interleaved rounds of
100,000 calls. Figures for flows and the binding are medians of {rounds} interleaved rounds; a flow
sends {elements:,} elements from source through processor to sink. The time includes the start of
the flow, but not the instantiation of guests. The copies are those of the ledger."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.sandbox")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(size=len(PAYLOAD), rounds=options.rounds, elements=ELEMENTS)
    report = Report("sandbox", "What does a sandboxed call cost?", method.replace("\n", " "))
    native = _native_figures(report)
    flows, copies, binding = _python_figures(report, options.rounds)
    report.tables += [_calls(native, binding), _flows(flows, copies), _instances(native)]
    report.data = {"native_ns": native, "flow_us": flows, "binding_us": binding, "copies": copies}
    publish(report, options.json)
    return 0


def _native_figures(report: Report) -> dict[str, float]:
    """Nanoseconds by name, from the benchmark of the crate."""
    cargo = shutil.which("cargo")
    if cargo is None:
        report.left_out["calls in Rust"] = "cargo is not installed"
        return {}
    say("calls in Rust")
    command = [cargo, "bench", "--quiet", "-p", "torvyn-sandbox", "--bench", "calls"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _python_figures(report: Report, rounds: int) -> tuple[list[float], float, list[float]]:
    """Microseconds and copies per element, and microseconds per call of the binding."""
    call = _binding(report)
    flows: list[float] = []
    binding: list[float] = []
    copies = 0.0
    with tempfile.TemporaryDirectory() as folder:
        manifest = _manifest(Path(folder))
        for number in range(-1, rounds):
            say("warm-up" if number < 0 else f"round {number + 1} of {rounds}")
            cost, copies = _flow_round(manifest)
            binding_us = _timed(call) if call else None
            if number >= 0:
                flows.append(cost)
                binding += [] if binding_us is None else [binding_us]
    return flows, copies, binding


def _binding(report: Report) -> Callable[[], bool] | None:
    if importlib.util.find_spec("wasmtime") is None:
        report.left_out["PyPI wasmtime"] = "not installed"
        return None
    report.versions["binding"] = f"wasmtime (PyPI) {distribution_version('wasmtime')}"
    call = filter_call(GUESTS / "filter.wasm", PAYLOAD)
    assert call()
    return call


def _timed(call: Callable[[], bool]) -> float:
    start = time.perf_counter()
    for _ in range(BINDING_CALLS):
        call()
    return (time.perf_counter() - start) / BINDING_CALLS * 1e6


def _manifest(folder: Path) -> Path:
    text = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
    for name in ("stream", "processor", "sink"):
        text += f'[flow.main.nodes.{name}]\ncomponent = "{GUESTS / name}.wasm"\n'
    for source, target in (("stream", "processor"), ("processor", "sink")):
        text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    file = folder / "Torvyn.toml"
    file.write_text(text + f'[runtime]\ncache_dir = "{folder / "cache"}"\n')
    return file


def _flow_round(manifest: Path) -> tuple[float, float]:
    import torvyn

    flow = torvyn.load(manifest).flow("main")
    start = time.perf_counter()
    flow.run()
    spent_s = time.perf_counter() - start
    assert flow.statistics.nodes["sink"].received == ELEMENTS
    return spent_s / ELEMENTS * 1e6, flow.statistics.copies / ELEMENTS


def _calls(native: dict[str, float], binding: list[float]) -> Table:
    table = Table(("one filter call", "us", "target", "x raw"), title="A call that reads")
    raw = native.get("raw_filter")
    names = {"raw_filter": "raw typed call in Rust", "filter": "stage of a flow"}
    names["metadata_filter"] = "stage, metadata only"
    for key, name in names.items():
        if raw is not None:
            goal = verdict(native[key] / 1e3, 1.0) if key == "filter" else ""
            ratio = f"{native[key] / raw:.2f}"
            table.rows.append([name, f"{native[key] / 1e3:.3f}", goal, ratio])
    if binding:
        middle = quartiles(binding)[1]
        ratio = f"{middle * 1e3 / raw:.0f}" if raw else ""
        table.rows.append(["PyPI wasmtime binding", f"{middle:.1f}", "", ratio])
    return table


def _flows(flows: list[float], copies: float) -> Table:
    low, middle, high = quartiles(flows)
    columns = (
        "flow of three guests",
        "us per element",
        "quartiles",
        "target",
        "copies per element",
    )
    row = ["source -> processor -> sink", f"{middle:.3f}", f"{low:.3f}-{high:.3f}"]
    return Table(columns, [[*row, verdict(middle, 4.0), f"{copies:g}"]], title="A flow")


def _instances(native: dict[str, float]) -> Table:
    table = Table(("instantiate and `init`", "us", "target"), title="An instance")
    if native:
        cost = native["instantiate"] / 1e3
        table.rows.append(["code already compiled", f"{cost:.1f}", verdict(cost, 200.0)])
    return table


if __name__ == "__main__":
    sys.exit(main())
