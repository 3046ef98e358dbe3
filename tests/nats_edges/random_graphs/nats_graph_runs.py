"""Runs random flows over a broker, kills their processes and the broker, and judges the output.

    python nats_graph_runs.py FOLDER FIRST LAST

Prints a line per broken law, and exits with 1 if there is one.
"""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import random
import shutil
import socket
import sys
import time
import traceback
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from nats_graph import RandomGraph
from nats_parts import check_account

import torvyn
from nats_server import NatsServer, ask
from torvyn._link.plan import segments_of
from torvyn.errors import TorvynError

LIMIT_S = 60.0
# This process has threads as soon as a flow runs in it, so another one forks.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["torvyn"])
Place = tuple[tuple[str, ...], int]
"""The segments of a process, all of them if there are none, and its replica."""


def places(flow: torvyn.Flow, *, is_split: bool) -> list[Place]:
    if not is_split:
        return [((), 0)]
    made: list[Place] = []
    for segment in segments_of(flow.plan):
        count = max([node.place.replicas for node in segment.nodes if node.place] or [1])
        made += [((segment.name,), replica) for replica in range(count)]
    return made


def run_in_process(seed: int, folder: Path, place: Place, run: str) -> None:
    """Runs a part, and ends its process."""
    logging.getLogger("torvyn").setLevel(logging.CRITICAL)
    code = 1
    try:
        run_part(seed, folder, place, run)
        code = 0
    except BaseException:
        name = f"{'-'.join(place[0])}.{place[1]}"
        print(f"seed {seed}: {name}: {traceback.format_exc()}", flush=True)
    os._exit(code)


def run_part(seed: int, folder: Path, place: Place, run: str) -> None:
    flow = RandomGraph(seed, folder, is_nats=True).flow
    cluster = flow.plan.cluster
    assert cluster is not None
    cluster = replace(cluster, segments=place[0], replica=place[1], run=run)
    flow = torvyn.Flow.from_plan(replace(flow.plan, cluster=cluster))
    try:
        flow.start()
    except TorvynError as error:
        if error.code == "broker.run-over":
            return
        if error.code == "broker.away":
            # The broker was killed while the process started: whoever starts it tries again.
            run_part(seed, folder, place, run)
            return
        raise
    flow.wait()
    check_account(flow)
    assert not any(edge.unread for edge in flow.statistics.edges), flow.statistics.edges


class Processes:
    def __init__(self, seed: int, folder: Path, parts: list[Place], run: str) -> None:
        self._seed, self._folder, self._run = seed, folder, run
        self.running = {place: self._start(place) for place in parts}
        self.failed = False

    def _start(self, place: Place) -> ForkServerProcess:
        arguments = (self._seed, self._folder, place, self._run)
        process = PROCESSES.Process(target=run_in_process, args=arguments)
        process.start()
        return process

    def look(self) -> None:
        """Forgets processes that have ended."""
        for place, process in list(self.running.items()):
            if process.exitcode is not None:
                del self.running[place]
                self.failed |= process.exitcode != 0

    def kill(self, *victims: Place) -> None:
        for place in victims:
            if place in self.running:
                self.running[place].kill()
                self.running[place].join()
        for place in victims:
            if place in self.running:
                self.running[place] = self._start(place)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.join()


def run_seed(seed: int, folder: Path, server: NatsServer) -> list[str]:
    """The laws that the flow of this seed has broken."""
    rng = random.Random(f"runs {seed}")
    one, many = folder / "one", folder / "many"
    for each in (one, many):
        each.mkdir(parents=True)
    expected = RandomGraph(seed, one, is_nats=False)
    expected.flow.run()
    flow = RandomGraph(seed, many, is_nats=True).flow
    parts = places(flow, is_split=rng.random() < 0.75)
    run = "r" if rng.random() < 0.75 else ""
    processes = Processes(seed, many, parts, run)
    # Without a name, a process that is killed behind its end begins a new run.
    longest_s = 1.6 if run else 0.6
    kills = sorted(rng.uniform(0.0, longest_s) for _ in range(rng.choice((0, 2, 4, 6))))
    started_s = time.monotonic()
    try:
        while processes.running and not processes.failed:
            since_s = time.monotonic() - started_s
            if since_s > LIMIT_S:
                return [f"{list(processes.running)} of {parts} have not ended"]
            if kills and since_s >= kills[0]:
                kills.pop(0)
                _kill(rng, processes, server)
            processes.look()
            time.sleep(0.005)
    finally:
        processes.stop()
    if processes.failed:
        return ["a process has failed"]
    return [law for sink in expected.sinks for law in _laws(expected, one / sink, many / sink)]


def _kill(rng: random.Random, processes: Processes, server: NatsServer) -> None:
    kind = rng.choice(("process", "process", "process", "broker", "all"))
    victims = list(processes.running)
    if kind == "process":
        victims = rng.sample(victims, min(len(victims), rng.choice((1, 1, 2))))
    elif kind == "broker":
        victims = []
    if kind != "process":
        server.stop()
        server.start()
    processes.kill(*victims)


def _laws(graph: RandomGraph, one: Path, many: Path) -> list[str]:
    expected, found = _delivered(one), _delivered(many)
    problems = []
    if missing := expected.keys() - found.keys():
        problems.append(f"{many.name}: {len(missing)} of {len(expected)} missing: {min(missing)}")
    if extra := found.keys() - expected.keys():
        problems.append(f"{many.name}: {len(extra)} wrong ones: {min(extra)}")
    if graph.keeps_order and not problems and _by_key(expected) != _by_key(found):
        problems.append(f"{many.name}: not in order")
    return problems


def _delivered(file: Path) -> dict[str, None]:
    """In the order in which they came first."""
    return dict.fromkeys(file.read_text().splitlines() if file.exists() else ())


def _by_key(texts: dict[str, None]) -> dict[str, list[Any]]:
    keys: dict[str, list[Any]] = {}
    for text in texts:
        fields = json.loads(text)
        keys.setdefault(fields["k"], []).append(fields["v"])
    return keys


def delete_streams(server: NatsServer) -> None:
    async def call(client: Any, js: Any) -> None:
        for stream in await js.streams_info():
            await js.delete_stream(stream.config.name)

    ask(server, call)


def main() -> int:
    logging.getLogger("torvyn").setLevel(logging.CRITICAL)
    folder, failures = Path(sys.argv[1]), 0
    with socket.create_server(("127.0.0.1", 0)) as probe:
        server = NatsServer(probe.getsockname()[1], folder / "nats")
    server.start()
    os.environ["TORVYN_CLUSTER__NATS"] = server.url
    os.environ["TORVYN_RUNTIME__STATE_DIR"] = str(folder / "state")
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        for seed in range(int(sys.argv[2]), int(sys.argv[3])):
            laws = run_seed(seed, folder / str(seed), server)
            for law in laws:
                failures += 1
                print(f"seed {seed}: {law}", flush=True)
            if not laws:
                shutil.rmtree(folder / str(seed))
            # Every stream reserves the bytes that it may have.
            delete_streams(server)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
