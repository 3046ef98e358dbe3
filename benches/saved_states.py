"""What does a flow with the states of many keys write per second, and how long does a restart take?

    python -m benches.saved_states [--seconds S] [--restored KEYS...] [--folder F] [--json]

Windows of many sensors behind a source of 40 readings per second, and an edge that keeps every
reading until it is durable, so that a checkpoint follows every 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torvyn
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

RATE = 40
KEYS = (1_000, 40_000)
RESTORED = (40_000, 1_000_000)
CARRIERS = ("disk", "nats")
GOAL_MB = 1.0
WARM_UP_S = 10
METHOD = """\
A source sends one reading of each sensor, and then {rate} per second of sensors at random, to a
`window` with a `key` and over an edge with a carrier to a sink; the windows stay open. Everything
that the process (with `nats`, the server) gives to the disk is counted, from {warm} s after the
first paced reading on, for {seconds:g} s: elements, positions and states together. CPU is that of
the process. A restart is measured from the start of the flow to the first call of the source,
after kill -9."""


class Sensors(torvyn.Source):
    """Reads every sensor once, and then some at random. Its position is saved."""

    def __init__(self, keys: int, is_paced: bool, note: Any) -> None:
        super().__init__()
        self.keys, self.is_paced, self.note = keys, is_paced, note
        self.next = 0
        self.began_s = 0.0
        self.dice = random.Random(1)

    def pull(self) -> Any:
        number = self.next
        key = number if number < self.keys else self.dice.randrange(self.keys)
        if number >= self.keys:
            self.began_s = self.began_s or time.monotonic()
            due_s = self.began_s + (number - self.keys) / RATE
            self.note(time.monotonic() - self.began_s)
            if not self.is_paced or (wait_s := due_s - time.monotonic()) > 0:
                return torvyn.PENDING.after(wait_s if self.is_paced else 0.05)
        self.next += 1
        at = 1_700_000_000 + number // 1000
        return json.dumps({"sensor": f"sensor-{key:07}", "at": at, "celsius": 20.5 + key % 7})

    def snapshot(self) -> int:
        self.note(None)
        return self.next

    def restore(self, state: int) -> None:
        self.next = state


def make_flow(source: Sensors, carrier: str) -> torvyn.Flow:
    compute = {"mean": "mean(celsius)", "max": "max(celsius)"}
    config = {"every": "24h", "time": "at", "lateness": "1h", "compute": compute}
    flow = torvyn.Flow(name="main", queue_depth=256).add("readings", source)
    options: dict[str, Any] = {"max_keys": 2_000_000, "max_memory_bytes": 16 << 30}
    flow.add("means", "window", key="sensor", config=config, **options)
    flow.add("results", "null").add("out", "null")
    flow.connect("readings", "means").connect("means", "results")
    return flow.connect("readings", "out", carrier=carrier, max_bytes=4 << 30)  # type: ignore[arg-type]


def written_bytes(process: int) -> int:
    with open(f"/proc/{process}/io") as file:
        line = next(line for line in file if line.startswith("write_bytes"))
    return int(line.split()[1])


def run_paced(carrier: str, keys: int, seconds: float, writer: int) -> None:
    """In a process of its own: prints the figures, and is gone."""
    writer = writer or os.getpid()
    found: list[tuple[float, int, float]] = []

    def note(elapsed_s: float | None) -> None:
        if elapsed_s is None or elapsed_s < (WARM_UP_S, WARM_UP_S + seconds)[len(found)]:
            return
        found.append((time.monotonic(), written_bytes(writer), time.process_time()))
        if len(found) == 2:
            (a_s, a_bytes, a_cpu), (b_s, b_bytes, b_cpu) = found
            span_s = b_s - a_s
            print(json.dumps([(b_bytes - a_bytes) / span_s / 1e6, (b_cpu - a_cpu) / span_s]))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    make_flow(Sensors(keys, True, note), carrier).run()


def run_filled(carrier: str, keys: int, is_first: bool) -> None:
    """In a process of its own: fills the windows; or finds them and says how long that took."""
    began_s = time.monotonic()
    is_filled, saves = False, 0

    def note(elapsed_s: float | None) -> None:
        nonlocal is_filled, saves
        is_filled |= elapsed_s is not None
        saves += is_filled and elapsed_s is None
        if elapsed_s is not None and not is_first:
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(json.dumps([time.monotonic() - began_s, used]), flush=True)
        # The state before the last one that was taken is stored.
        if is_filled and (not is_first or saves == 3):
            os.kill(os.getpid(), signal.SIGKILL)

    make_flow(Sensors(keys, False, note), carrier).run()


def measure(how: str, carrier: str, keys: int, seconds: float, folder: Path, server: Any) -> Any:
    """What a process prints before it ends."""
    writer = server[0].pid if carrier == "nats" else 0
    own = [how, carrier, str(keys), str(seconds), str(writer)]
    env = {**os.environ, "TORVYN_RUNTIME__STATE_DIR": str(folder / "state")}
    if carrier == "nats":
        env["TORVYN_CLUSTER__NATS"] = server[1]
    command = [sys.executable, "-m", "benches.saved_states", "--measure", *own]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode not in (-signal.SIGKILL, 0) or (how != "fill" and not done.stdout):
        raise AssertionError(done.stderr)
    return json.loads(done.stdout) if how != "fill" else None


def start_server(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    program = Path(sys.executable).parent / "nats-server"
    command = [str(program), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "nats")]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server, f"nats://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.05)


def in_folder(how: str, carrier: str, keys: int, options: argparse.Namespace) -> Any:
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        server = start_server(folder) if carrier == "nats" else None
        try:
            if how == "restore":
                measure("fill", carrier, keys, options.seconds, folder, server)
            return measure(how, carrier, keys, options.seconds, folder, server)
        finally:
            if server is not None:
                server[0].kill()
                server[0].wait()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.saved_states")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--folder", type=Path, default=None, help="a folder on the disk to measure")
    parser.add_argument("--restored", type=int, nargs="*", default=RESTORED)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        how, carrier, keys, seconds, writer = options.measure
        if how == "paced":
            run_paced(carrier, int(keys), float(seconds), int(writer))
        else:
            run_filled(carrier, int(keys), is_first=how == "fill")
        return 0
    if cannot_run():
        return 2
    method = METHOD.format(rate=RATE, warm=WARM_UP_S, seconds=options.seconds)
    question = "What do the states of many keys cost on the disk?"
    report = Report("saved_states", question, method.replace("\n", " "))
    report.tables += [_written(report, options), _restored(report, options)]
    publish(report, options.json)
    return 0


def _written(report: Report, options: argparse.Namespace) -> Table:
    table = Table(("carrier", "keys", "MB written per second", "CPU", "goal"))
    for carrier in CARRIERS:
        for keys in KEYS:
            say(f"{keys:,} keys over {carrier}")
            written, cpu = in_folder("paced", carrier, keys, options)
            goal = f"<= {GOAL_MB:g}: {'met' if written <= GOAL_MB else 'NOT met'}"
            table.rows.append((carrier, f"{keys:,}", f"{written:.3f}", f"{cpu:.1%}", goal))
            report.data[f"written {carrier} {keys}"] = [written, cpu]
    return table


def _restored(report: Report, options: argparse.Namespace) -> Table:
    table = Table(("carrier", "keys", "seconds until the first reading", "MiB of the process"))
    table.title = "A restart after kill -9"
    for carrier in CARRIERS:
        for keys in options.restored:
            say(f"a restart with {keys:,} keys over {carrier}")
            took_s, mib = in_folder("restore", carrier, keys, options)
            table.rows.append((carrier, f"{keys:,}", f"{took_s:.2f}", f"{mib:,.0f}"))
            report.data[f"restart {carrier} {keys}"] = [took_s, mib]
    return table


if __name__ == "__main__":
    sys.exit(main())
