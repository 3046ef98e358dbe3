"""Does one element that a sink refuses for ever stop what is behind it?"""

from __future__ import annotations

import functools
import json
import tempfile
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torvyn
from benches.reliability.case import Case, Measurement
from torvyn._durable.dead_letters import FILE, DeadLetterStore
from torvyn.components import HttpSink

COUNT, EVERY = 20_000, 500
"""Readings per round, of which each 500th is refused."""


class _Collector(ThreadingHTTPServer):
    """Answers 400 to a request with a reading that it refuses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.accepted: list[int] = []
        self.requests = 0
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Collector

    def do_POST(self) -> None:
        numbers = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests += 1
        is_refused = any(number % EVERY == 0 for number in numbers)
        if not is_refused:
            self.server.accepted += numbers
        self.send_response(400 if is_refused else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class _Round:
    wrong: int
    """Readings that were not delivered once or set aside once, or came in another order."""
    requests: int
    seconds: float


@functools.cache
def _rounds(rounds: int) -> list[_Round]:
    return [_round() for _ in range(rounds)]


def _round() -> _Round:
    server = _Collector()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    with tempfile.TemporaryDirectory() as folder:
        with patch.dict("os.environ", {"TORVYN_RUNTIME__STATE_DIR": folder}):
            flow = torvyn.Flow(name="refused")
            flow.add("in", torvyn.source(map(str, range(COUNT))))
            flow.add("out", HttpSink({"url": url}))
            flow.connect("in", "out", carrier="disk")
            began_s = time.perf_counter()
            flow.run()
            seconds = time.perf_counter() - began_s
        store = DeadLetterStore(Path(folder, "refused", FILE))
        letters = [int(each.content()[2]) for each in store.read(store.letters())]
        store.close()
    server.shutdown()
    server.server_close()
    delivered = [n for n in range(COUNT) if n % EVERY]
    refused = list(range(0, COUNT, EVERY))
    wrong = _differences(server.accepted, delivered) + _differences(letters, refused)
    return _Round(wrong, server.requests, seconds)


def _differences(found: list[int], wanted: list[int]) -> int:
    pairs = zip(found, wanted, strict=False)
    return abs(len(found) - len(wanted)) + sum(one != other for one, other in pairs)


def wrong(rounds: int) -> Measurement:
    samples = [float(one.wrong) for one in _rounds(rounds)]
    refused = COUNT // EVERY
    return Measurement(sum(samples), samples, f"{refused} of {COUNT:,} refused per round")


def requests(rounds: int) -> Measurement:
    """Per refused reading, more than without it."""
    samples = [one.requests / (COUNT / EVERY) for one in _rounds(rounds)]
    rates = ", ".join(f"{COUNT / one.seconds:,.0f}/s" for one in _rounds(rounds))
    return Measurement(max(samples), samples, rates)


CASES = [
    Case(
        "refused.wrong",
        "one element that a sink refuses for ever",
        f"a collector answers 400 to each {EVERY}th of {COUNT:,} readings, in batches",
        0,
        "lost, repeated or out of order",
        wrong,
    ),
    Case("refused.requests", "the same", "per refused reading", 40, "requests", requests),
]
