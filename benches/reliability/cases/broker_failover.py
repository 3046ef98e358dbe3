"""Does a flow go on in seconds when one server of a broker that has three is lost?"""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benches.harness import percentile
from benches.reliability.case import Case, Measurement, SkipCase
from benches.reliability.guests import TESTS

if TYPE_CHECKING:
    from broker_failover import FailOver

KILLS = 4
"""Servers lost per round and kind."""
PAUSE_S = 3.0
ADDED_S = 1.0


@functools.cache
def _lost(victim: str, how: str, rounds: int) -> list[FailOver]:
    sys.path[:0] = [str(TESTS / "faults"), str(TESTS)]
    from broker_failover import fail_over

    from nats_server import find_server

    if find_server() is None:
        raise SkipCase("nats-server is not installed")
    found = []
    for number in range(KILLS * rounds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(fail_over(Path(folder), victim, how, has_state=bool(number % 2)))
    return found


def added_s(victim: str, how: str, rounds: int) -> Measurement:
    """What the flow adds to the election of the broker, which no setting of NATS shortens."""
    found = _lost(victim, how, rounds)
    samples = sorted(each.added_s for each in found)
    pauses = sorted(each.pause_s for each in found)
    elections = sorted(each.election_s for each in found)
    detail = (
        f"longest pause p50 {percentile(pauses, 0.5):.2f}, worst {pauses[-1]:.2f} s; "
        f"election p50 {percentile(elections, 0.5):.2f}, worst {elections[-1]:.2f} s"
    )
    return Measurement(samples[-1], samples, detail)


def wrong(rounds: int) -> Measurement:
    found = [each for fault in FAULTS for each in _lost(*fault, rounds)]
    samples = [float(each.wrong) for each in found]
    return Measurement(sum(samples), samples, f"{len(found)} servers lost")


FAULTS = {
    ("other", "kill"): "kill -9 of a server that leads no stream of the flow",
    ("other", "freeze"): "SIGSTOP of a server that leads no stream of the flow",
    ("leader", "kill"): "kill -9 of the server that leads a stream of the flow",
    ("leader", "freeze"): "SIGSTOP of the server that leads a stream of the flow",
}
_HOW = "three nats-servers, `stream_replicas = 3`; elements every 5 ms"
CASES = [
    *(
        Case(
            f"broker.{victim}-{how}",
            fault,
            f"{_HOW}; pause behind the loss, less the broker's own election, worst",
            ADDED_S if victim == "leader" else PAUSE_S,
            "s",
            functools.partial(added_s, victim, how),
        )
        for (victim, how), fault in FAULTS.items()
    ),
    Case(
        "broker.lost-server",
        "the faults above",
        f"{_HOW}; compared with what was sent",
        0,
        "lost, repeated or wrong",
        wrong,
    ),
]
