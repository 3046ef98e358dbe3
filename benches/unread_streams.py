"""What does a client cost that asks and never reads?

    python -m benches.unread_streams [--rounds R] [--json]

A thousand clients with default buffers ask for an answer that is longer than all buffers, and read
nothing. The server's memory grows until its engines wait. Counted from both sides: the resident set
of the process, and what the kernel holds for the server's ends of the connections.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from benches.harness import quartiles
from benches.load import PATIENCE_S, Question
from benches.open_streams import allow_files, opened, serving
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict
from benches.server_process import ServerProcess, stay_off_the_server

CLIENTS: Final = 1_000
TOKENS: Final = 60_000
GOAL_KIB: Final = 96.0
QUIET_S: Final = 1.0
CASES: Final[dict[str, dict[str, Any]]] = {
    "a stream": {"prompt": "Hi"},
    "a stateful stream": {"prompt": "Hi", "stateful": True},
}
METHOD = """\
{clients:,} clients with default socket buffers ask for {tokens:,} tokens each and never read; the
server runs on one core with its default limits, after two hundred other streams have ended. When it
has not used the core for {quiet:g} s, the growth of its resident set per client, and the memory
that the kernel accounts to its ends of the connections (`ss -m`: received, queued and reserved).
Medians of {rounds} rounds."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.unread_streams")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(
        clients=CLIENTS, tokens=TOKENS, quiet=QUIET_S, rounds=options.rounds
    ).replace("\n", " ")
    report = Report("unread_streams", "What does a client cost that never reads?", method)
    stay_off_the_server()
    allow_files(2 * CLIENTS)
    table = Table(("KiB per client that never reads", "process", "kernel", "both", "goal"))
    for name, body in CASES.items():
        _case(report, table, name, body, options.rounds)
    report.tables.append(table)
    publish(report, options.json)
    return 0


def _case(report: Report, table: Table, name: str, body: dict[str, Any], rounds: int) -> None:
    found = []
    for number in range(rounds):
        say(f"{name}: round {number + 1} of {rounds}")
        with serving("--tokens", str(TOKENS), "--write-timeout", "600") as server:
            measure(server, 200, body)
            found.append(measure(server, CLIENTS, body))
    process, kernel, both = (
        quartiles([figure(one) for one in found])[1]
        for figure in (lambda one: one[0], lambda one: one[1], sum)
    )
    row = (name, f"{process:.1f}", f"{kernel:.1f}", f"{both:.1f}", verdict(both, GOAL_KIB))
    table.rows.append(row)
    report.data[name] = found


def measure(server: ServerProcess, clients: int, body: dict[str, Any]) -> tuple[float, float]:
    """KiB per client: of the process, and of the kernel for the process."""
    request = Question("/v1/streams", body, b"").bytes(server.port)
    before = server.resident_bytes()
    with opened(server.port, clients) as socks:
        for sock in socks:
            sock.sendall(request)
        _wait_quiet(server)
        process = (server.resident_bytes() - before) / clients / 1024
        kernel = _kernel_bytes(server.port, clients) / clients / 1024
    _wait_quiet(server)
    return process, kernel


def _wait_quiet(server: ServerProcess) -> None:
    until_s = time.monotonic() + PATIENCE_S
    used_s = -1.0
    while (now_s := server.cpu_s()) - used_s > 0.05:
        if time.monotonic() > until_s:
            raise TimeoutError("the server works on")
        used_s = now_s
        time.sleep(QUIET_S)


def _kernel_bytes(port: int, clients: int) -> int:
    """What the kernel has allocated for the connections to that port, on the server's side."""
    command = ["ss", "-Htmn", "state", "established", f"sport = :{port}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    memory = re.findall(r"skmem:\(r(\d+),\w+,\w+,\w+,f(\d+),w(\d+)", shown)
    if len(memory) != clients:
        raise AssertionError(f"{len(memory)} of {clients} connections are open")
    return sum(int(part) for parts in memory for part in parts)


if __name__ == "__main__":
    sys.exit(main())
