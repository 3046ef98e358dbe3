"""Starts the two ends of an edge and a broker of their own, and reads their figures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def find_server() -> str | None:
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


@contextmanager
def broker() -> Iterator[tuple[str, Callable[[], float]]]:
    """A NATS server with JetStream in files, on a free port: its address, and how much CPU time it
    has used."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="torvyn-nats-edge-") as folder:
        command = [find_server() or "nats-server", "-a", "127.0.0.1", "-p", str(port)]
        server = subprocess.Popen([*command, "-js", "-sd", folder], stderr=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"nats://127.0.0.1:{port}", lambda: _cpu_s(server.pid)
        finally:
            server.kill()
            server.wait()


def _cpu_s(process: int) -> float:
    # The name of the program, in brackets, may have spaces.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _wait_for(port: int) -> None:
    for _ in range(1000):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise TimeoutError("the NATS server does not start")


def measure(how: str, what: str, sessions: int, count: int) -> dict[str, float]:
    """The figures of the reading end, and the CPU time of all. Raises if one element is missing."""
    if how == "memory":
        return _checked(how, what, count, {"both": _start(how, what, "both", "", sessions, count)})
    with broker() as (url, broker_cpu_s):
        # The broker of a run on its own: what it uses before the start is not counted.
        ends = {end: _start(how, what, end, url, sessions, count) for end in ("read", "write")}
        before_s = broker_cpu_s()
        figures = _checked(how, what, count, ends)
        return {**figures, "broker_cpu_s": broker_cpu_s() - before_s}


def _checked(
    how: str, what: str, count: int, ends: Mapping[str, subprocess.Popen[str]]
) -> dict[str, float]:
    for process in ends.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    figures = {end: _figures(process) for end, process in ends.items()}
    for end, values in figures.items():
        if values["count"] != count:
            raise AssertionError(f"{how} {what}, {end}: {values['count']} of {count} elements")
    cpu_s = {f"{end}_cpu_s": values["cpu_s"] for end, values in figures.items()}
    return {**next(iter(figures.values())), **cpu_s}


def _start(
    how: str, what: str, end: str, url: str, sessions: int, count: int
) -> subprocess.Popen[str]:
    arguments = (how, what, end, url, str(sessions), str(count))
    process = subprocess.Popen(
        [sys.executable, "-m", "benches.nats_edge.ends", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _figures(process: subprocess.Popen[str]) -> dict[str, float]:
    out, _ = process.communicate(timeout=200)
    if process.returncode:
        raise AssertionError(f"an end of the edge has failed: {process.returncode}")
    figures: dict[str, float] = json.loads(out.splitlines()[-1])
    return figures
