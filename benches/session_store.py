"""What does a stateful answer cost per token, by where its frames are kept?

    python -m benches.session_store [--rounds R] [--streams S] [--json]

In no store, in memory, in a file, and at a broker that several servers share.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benches.harness import percentile, quartiles
from benches.load import Question, text_of
from benches.nats_edge.measurements import find_server
from benches.open_streams import delays_ms
from benches.question import cannot_run, publish, say
from benches.report import Report, Table
from benches.server_process import (
    OTHER_CORE,
    SERVER_CORE,
    ServerProcess,
    module,
    running,
    stay_off_the_server,
)
from benches.work_serving import MODEL, right

RATE, SECONDS, CHECKED_TOKENS = 50.0, 3, 200
PLAIN = Question("/v1/streams", {"prompt": "Hi", "flow": MODEL}, b'"text":')
STATEFUL = Question("/v1/streams", {**PLAIN.body, "stateful": True}, b'"text":')
METHOD = """\
{streams} answers at once of {rate:g} tokens per second each, for {seconds} s, through a block-list,
as server-sent events. The server runs on one core; reader and broker (NATS with JetStream in files)
share the other. Delay: from the engine's `yield` to the reader's `recv`, of all tokens of a round
except its first second. CPU: user and system time of all threads of the server, and of the broker,
per token. Before anything is timed, each answer is read, and the stateful ones are read again by
their id: the text must be the same. Every token must arrive. Medians of {rounds} interleaved
rounds; ratios are computed within a round."""


@dataclass(slots=True)
class Entry:
    name: str
    question: Question
    store: str | None
    server: ServerProcess | None = None
    server_us: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.session_store")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(rate=RATE, seconds=SECONDS, **vars(options)).replace("\n", " ")
    report = Report("session_store", "What does it cost to keep an answer?", method)
    stay_off_the_server()
    with tempfile.TemporaryDirectory() as folder, _broker(folder) as broker:
        entries = [
            Entry("not stateful", PLAIN, None),
            Entry("in memory", STATEFUL, None),
            Entry("in a file", STATEFUL, f"{folder}/sessions.db"),
        ]
        if broker is None:
            report.left_out["at a broker"] = "nats-server is not installed"
        else:
            entries.append(Entry("at a broker", STATEFUL, f"nats://127.0.0.1:{broker.port}"))
        for entry in entries:
            _check(entry)
        _measure(entries, broker, options)
    _tell(report, entries)
    publish(report, options.json)
    return 0


@contextlib.contextmanager
def _broker(folder: str) -> Iterator[ServerProcess | None]:
    found = find_server()
    if found is None:
        yield None
        return
    command = [found, "-a", "127.0.0.1", "-p", "{port}", "-js", "-sd", folder]
    with running(command, OTHER_CORE) as broker:
        yield broker


def _serving(entry: Entry, *arguments: str) -> contextlib.AbstractContextManager[ServerProcess]:
    store = () if entry.store is None else ("--session-store", entry.store)
    command = module("benches.peers.torvyn_serve", "--port", "{port}", *store, *arguments)
    return running(command, SERVER_CORE)


def _check(entry: Entry) -> None:
    say(f"checking: {entry.name}")
    expected = right(CHECKED_TOKENS)
    with _serving(entry, "--tokens", str(CHECKED_TOKENS), "--paced") as server:
        if text_of(server.port, entry.question) != expected:
            raise AssertionError(f"{entry.name}: a different text")
        if entry.question is STATEFUL and _read_twice(server.port) != [expected, expected]:
            raise AssertionError(f"{entry.name}: a different text when it is read again")


def _read_twice(port: int) -> list[str]:
    """The text of an answer, and of the same answer when a client comes back to it."""
    events = _events(port, "POST", STATEFUL.path, json.dumps(STATEFUL.body))
    again = _events(port, "GET", f"{STATEFUL.path}/{events[0]['id']}")
    return ["".join(event.get("text") or "" for event in read) for read in (events, again)]


def _events(port: int, method: str, path: str, body: str | None = None) -> list[dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body, {"Content-Type": "application/json"})
        lines = connection.getresponse().read().decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def _measure(
    entries: list[Entry], broker: ServerProcess | None, options: argparse.Namespace
) -> None:
    tokens = int(RATE * SECONDS)
    with contextlib.ExitStack() as stack:
        for entry in entries:
            arguments = ("--rate", str(RATE), "--tokens", str(tokens))
            entry.server = stack.enter_context(_serving(entry, *arguments))
            delays_ms(entry.server.port, 1, entry.question)
        for number in range(options.rounds):
            say(f"round {number + 1} of {options.rounds}")
            for entry in entries:
                _round(entry, broker, options.streams, tokens)


def _round(entry: Entry, broker: ServerProcess | None, streams: int, tokens: int) -> None:
    assert entry.server is not None
    before_s = entry.server.cpu_s(), 0.0 if broker is None else broker.cpu_s()
    late_ms = delays_ms(entry.server.port, streams, entry.question)
    if len(late_ms) != streams * tokens:
        raise AssertionError(f"{entry.name}: {len(late_ms)} of {streams * tokens} tokens arrived")
    time.sleep(0.1)  # what the broker still writes belongs to this round
    entry.server_us.append((entry.server.cpu_s() - before_s[0]) / len(late_ms) * 1e6)
    broker_s = 0.0 if broker is None else broker.cpu_s() - before_s[1]
    entry.broker_us.append(broker_s / len(late_ms) * 1e6)
    kept = late_ms[len(late_ms) // SECONDS :]
    entry.p50_ms.append(percentile(kept, 0.5))
    entry.p99_ms.append(percentile(kept, 0.99))


def _tell(report: Report, entries: list[Entry]) -> None:
    columns = ("kept", "us of CPU per token", "quartiles", "of not stateful")
    table = Table((*columns, "the broker's us", "delay, p50 ms", "p99 ms"))
    plain = entries[0]
    for entry in entries:
        low, middle, high = quartiles(entry.server_us)
        pairs = zip(entry.server_us, plain.server_us, strict=True)
        ratio = statistics.median(own / other for own, other in pairs)
        broker = statistics.median(entry.broker_us)
        delays = (f"{statistics.median(one):.2f}" for one in (entry.p50_ms, entry.p99_ms))
        figures = (f"{middle:.1f}", f"{low:.1f} - {high:.1f}", f"{ratio:.2f} x", f"{broker:.1f}")
        table.rows.append((entry.name, *figures, *delays))
        report.data[entry.name] = {
            "server_us": entry.server_us,
            "broker_us": entry.broker_us,
            "p50_ms": entry.p50_ms,
            "p99_ms": entry.p99_ms,
        }
    report.tables.append(table)


if __name__ == "__main__":
    sys.exit(main())
