"""What does a client cost that asks and never reads?

    python -m benches.unread_streams [--rounds R] [--json]

A thousand clients with default buffers ask for an answer that is longer than all buffers, and read
nothing. The server's memory grows until its engines wait. It is counted in two ways: by what the
kernel says of each of the server's sockets, in a server of the benchmarks that has already served
others; and from outside, in a fresh `torvyn serve`, by the totals of the kernel.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benches.harness import quartiles
from benches.load import PATIENCE_S, Question
from benches.open_streams import allow_files, gateway, opened, serving
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict
from benches.server_process import SERVER_CORE, ServerProcess, module, running, stay_off_the_server
from benches.work_serving import answer

CLIENTS: Final = 1_000
OTHERS: Final = 200
TOKENS: Final = 3_000
REPEAT: Final = 40
"""Words per token, so that the buffers are full within seconds."""
RECEIVE_BYTES: Final = 4096
"""What the kernel keeps for a client that does not read is not the server's."""
GOAL_KIB: Final = 96.0
QUIET_S: Final = 1.0
CASES: Final[dict[str, dict[str, Any]]] = {
    "a stream": {"prompt": "Hi"},
    "a stateful stream": {"prompt": "Hi", "stateful": True},
}
METHOD = """\
{clients:,} clients with default socket buffers ask for an answer of {size:.0f} KiB each and never
read; the server has one core. The figures are taken when it has not used its core for {quiet:g} s:
the growth of its resident set, and what the kernel holds for its ends of the connections. "By
socket": a server of the benchmarks after {others} unread streams have come and gone; of the kernel,
what it accounts to each of the server's sockets (`ss -m`: received, queued and reserved). "From
outside": a fresh `torvyn serve` at its default settings; of the kernel, the growth of all TCP
memory (/proc/net/sockstat) less what is accounted to the clients' ends. Medians of {rounds}
rounds. A stream of a gateway has a connection to its upstream too, which sends as fast as it is
read."""
MANIFEST = """\
[torvyn]
name = "unread"
version = "0.1.0"
contract_version = "0.1.0"

[flow.chat.nodes]
model = { component = "engine:scripted", config = { text = "%s" } }
policy = { component = "blocklist", config = { words = "badword", mode = "stream" } }
answer = { component = "response" }

[[flow.chat.edges]]
from = "model"
to = "policy"

[[flow.chat.edges]]
from = "policy"
to = "answer"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.unread_streams")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    size_kib = REPEAT * len("".join(answer(TOKENS))) / 1024
    method = METHOD.format(
        clients=CLIENTS, others=OTHERS, size=size_kib, quiet=QUIET_S, rounds=options.rounds
    )
    question = "What does a client cost that never reads?"
    report = Report("unread_streams", question, method.replace("\n", " "))
    stay_off_the_server()
    allow_files(3 * CLIENTS)
    columns = ("KiB per client that never reads", "counted", "process", "kernel", "both", "goal")
    report.tables.append(Table(columns))
    for name, body in CASES.items():
        _case(report, name, body, options.rounds)
    _gateway(report, options.rounds)
    publish(report, options.json)
    return 0


def _case(report: Report, name: str, body: dict[str, Any], rounds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {"by socket": [], "from outside": []}
    for number in range(rounds):
        say(f"{name}: round {number + 1} of {rounds}")
        size = ("--tokens", str(TOKENS), "--repeat", str(REPEAT), "--write-timeout", "600")
        with serving(*size) as server:
            by_socket(server, OTHERS, CASES["a stream"])
            found["by socket"].append(by_socket(server, CLIENTS, body))
        with _torvyn_serve() as server:
            found["from outside"].append(from_outside(server, CLIENTS, body))
    _tell(report, name, found)


def _gateway(report: Report, rounds: int) -> None:
    """The same in front of an upstream that sends as fast as it is read."""
    name, found = "a stream of a gateway", list[tuple[float, float]]()
    for number in range(rounds):
        say(f"{name}: round {number + 1} of {rounds}")
        answers = ("--tokens", str(TOKENS), "--repeat", str(REPEAT))
        with gateway(*answers) as (server, upstream):
            body = CASES["a stream"]
            by_socket(server, OTHERS, body, upstream.port)
            found.append(by_socket(server, CLIENTS, body, upstream.port))
    _tell(report, name, {"by socket": found})


def _tell(report: Report, name: str, found: dict[str, list[tuple[float, float]]]) -> None:
    for counted, rows in found.items():
        process, kernel, both = (
            quartiles(values)[1] for values in (*zip(*rows, strict=True), [*map(sum, rows)])
        )
        figures = (f"{process:.1f}", f"{kernel:.1f}", f"{both:.1f}", verdict(both, GOAL_KIB))
        report.tables[0].rows.append((name, counted, *figures))
    report.data[name] = found


@contextlib.contextmanager
def _torvyn_serve() -> Iterator[ServerProcess]:
    with tempfile.TemporaryDirectory() as folder:
        text = " ".join((word.strip() * REPEAT) for word in answer(TOKENS))
        Path(folder, "Torvyn.toml").write_text(MANIFEST % text, encoding="utf-8")
        command = module("torvyn", "serve", "--manifest", folder, "--port", "{port}")
        with running(command, SERVER_CORE) as server:
            yield server


def by_socket(
    server: ServerProcess, clients: int, body: dict[str, Any], upstream_port: int = 0
) -> tuple[float, float]:
    """KiB per client: of the process, and of the kernel for the process."""
    before = server.resident_bytes()
    with _unread(server, clients, body):
        process = server.resident_bytes() - before
        kernel = socket_bytes(f"sport = :{server.port}", clients)
        if upstream_port:
            kernel += socket_bytes(f"dport = :{upstream_port}", clients)
    _wait_quiet(server)
    return process / clients / 1024, kernel / clients / 1024


def from_outside(server: ServerProcess, clients: int, body: dict[str, Any]) -> tuple[float, float]:
    """The same, with what the kernel holds for everybody less what it holds for the clients."""
    before, tcp_before = server.resident_bytes(), tcp_bytes()
    with _unread(server, clients, body):
        process = server.resident_bytes() - before
        of_clients = socket_bytes(f"dport = :{server.port}", clients)
        kernel = tcp_bytes() - tcp_before - of_clients
    return process / clients / 1024, kernel / clients / 1024


@contextlib.contextmanager
def _unread(server: ServerProcess, clients: int, body: dict[str, Any]) -> Iterator[None]:
    request = Question("/v1/streams", body, b"").bytes(server.port)
    with opened(server.port, clients, RECEIVE_BYTES) as socks:
        for sock in socks:
            sock.sendall(request)
        _wait_quiet(server)
        yield


def _wait_quiet(server: ServerProcess) -> None:
    until_s = time.monotonic() + PATIENCE_S
    used_s = -1.0
    while (now_s := server.cpu_s()) - used_s > 0.05:
        if time.monotonic() > until_s:
            raise TimeoutError("the server works on")
        used_s = now_s
        time.sleep(QUIET_S)


def socket_bytes(which: str, count: int) -> int:
    """What the kernel has allocated for those sockets."""
    command = ["ss", "-Htmn", "state", "established", which]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    memory = re.findall(r"skmem:\(r(\d+),\w+,\w+,\w+,f(\d+),w(\d+)", shown)
    if len(memory) != count:
        raise AssertionError(f"{len(memory)} of {count} connections are open")
    return sum(int(part) for parts in memory for part in parts)


def tcp_bytes() -> int:
    """What the kernel has allocated for all TCP sockets."""
    pages = re.search(r"^TCP:.* mem (\d+)", Path("/proc/net/sockstat").read_text(), re.MULTILINE)
    if pages is None:
        raise RuntimeError("/proc/net/sockstat does not tell the memory of TCP")
    return int(pages[1]) * 4096


if __name__ == "__main__":
    sys.exit(main())
