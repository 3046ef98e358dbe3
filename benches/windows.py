"""What does a window cost per reading, by event time and key, compared with bytewax?

    python -m benches.windows [--readings N] [--rounds R] [--json]

The work of a gateway: JSON readings of many sensors, slightly out of order, become means and maxima
per sensor and ten seconds. Also: the cost of a key alone, and the memory of a key.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence

import torvyn
from benches.harness import quartiles
from benches.peers import bytewax_windows
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from torvyn._link.key_reader import key_reader
from torvyn.components import Window
from torvyn.components.keys.keyed_components import KeyedComponents
from torvyn.testing import CollectingSink

SENSORS, LENGTH_S, LATENESS_S = 100, 10, 2
COMPUTE = {"mean": "mean(celsius)", "max": "max(celsius)"}
METHOD = """\
{count:,} readings such as `{example}` from {sensors} sensors, up to {lateness} s out of order, as
one list. Each entry computes count, mean and maximum per sensor and {length} s by event time, and
must first give the same windows. Figures are processor time per reading, median and quartiles of
{rounds} interleaved rounds; the ratio is the median of the rounds' ratios. Reading the JSON is part
of the work."""
Run = Callable[[list[str]], list[str]]


def readings(count: int) -> list[str]:
    """Readings in the order of their arrival, from a seeded generator."""
    rng = random.Random(7)
    per_second = 1000
    made = []
    for number in range(count):
        at_s = 1_700_000_000 + number / per_second
        record = {
            "sensor": f"s-{number % SENSORS:03d}",
            "at": round(at_s, 3),
            "celsius": round(20 + rng.gauss(0, 2), 2),
            "status": "ok",
        }
        made.append((at_s + rng.random() * LATENESS_S, json.dumps(record)))
    return [text for _, text in sorted(made)]


def torvyn_windows(texts: list[str], key: str | None = "sensor") -> list[str]:
    sink = CollectingSink()
    config = {"every": LENGTH_S, "time": "at", "lateness": LATENESS_S, "compute": COMPUTE}
    flow = torvyn.Flow(queue_depth=1024).add("readings", texts).add("sink", sink)
    flow.add("windows", Window(config), key=key)
    flow.connect("readings", "windows").connect("windows", "sink").run()
    return sink.texts


def keyed_pass(texts: list[str]) -> list[str]:
    """The cost of a key alone: a processor per key that does nothing."""
    sink = torvyn.sink(lambda element: None)
    flow = torvyn.Flow(queue_depth=1024).add("readings", texts).add("sink", sink)
    flow.add("pass", torvyn.processor(lambda element: element), key="sensor")
    flow.connect("readings", "pass").connect("pass", "sink").run()
    return []


def digest(windows: list[str]) -> str:
    """The same for the same windows in any order."""
    rows = sorted(
        (one["key"], one["start"], one["count"], round(one["mean"], 9), one["max"])
        for one in map(json.loads, windows)
    )
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.windows")
    parser.add_argument("--readings", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    texts = readings(options.readings)
    report = Report("windows", "What does a window cost per reading?", "")
    report.method = METHOD.format(
        count=len(texts),
        example=texts[0],
        sensors=SENSORS,
        lateness=LATENESS_S,
        length=LENGTH_S,
        rounds=options.rounds,
    )
    entries: dict[str, Run] = {"torvyn `window` with `key`": torvyn_windows}
    missing = bytewax_windows.available()
    if missing is None:
        report.versions["bytewax"] = bytewax_windows.VERSION()
        entries["bytewax, batches of 64"] = bytewax_windows.run
    else:
        report.left_out["bytewax"] = missing
    report.tables.append(_compare(entries, texts, options.rounds))
    report.tables.append(_parts(texts, options.rounds))
    publish(report, options.json)
    return 0


def _compare(entries: dict[str, Run], texts: list[str], rounds: int) -> Table:
    expected = digest(torvyn_windows(texts))
    for name, run in entries.items():
        say(f"checking {name}")
        if digest(run(texts)) != expected:
            raise AssertionError(f"{name} gave other windows")
    times: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, run in entries.items():
            times[name].append(_cpu_s(run, texts) / len(texts))
    base = times[next(iter(entries))]
    rows: list[Sequence[str]] = []
    for name, own in times.items():
        low, middle, high = (1e6 * value for value in quartiles(own))
        ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
        rows.append((name, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", f"{ratio:.2f}"))
    return Table(("entry", "us per reading", "quartiles", "x torvyn"), rows)


def _parts(texts: list[str], rounds: int) -> Table:
    """Where torvyn's time goes, and what a key costs in memory."""
    parse = statistics.median(_cpu_s(_parse_all, texts) for _ in range(rounds)) / len(texts)
    key = statistics.median(_cpu_s(keyed_pass, texts) for _ in range(rounds)) / len(texts)
    rows: list[Sequence[str]] = [
        ("`json.loads` of every reading, without a flow", f"{parse * 1e6:.2f} us"),
        ("a flow with a keyed processor that does nothing", f"{key * 1e6:.2f} us"),
        ("memory of a key with an open window", f"{_key_bytes():.0f} bytes"),
    ]
    return Table(("part", "cost"), rows, "Parts of it")


def _parse_all(texts: list[str]) -> list[str]:
    for text in texts:
        json.loads(text)
    return []


def _key_bytes(keys: int = 2000) -> float:
    config = {"every": LENGTH_S, "time": "at", "compute": COMPUTE}
    keyed = KeyedComponents(Window, key_reader("sensor"), keys, 2**40)
    keyed.init(json.dumps(config), None)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(keys):
        record = {"sensor": f"s-{number}", "at": 1_700_000_000, "celsius": 20.5}
        keyed.call(torvyn.Element(json.dumps(record)))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / keys


def _cpu_s(run: Run, texts: list[str]) -> float:
    gc.collect()
    started = time.process_time()
    run(texts)
    return time.process_time() - started


if __name__ == "__main__":
    raise SystemExit(main())
