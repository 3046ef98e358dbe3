"""One end of a `nats` edge, or of the same by hand with nats-py, in a process of its own; or both
ends of a memory edge.

    python -m benches.nats_edge.ends HOW WHAT END URL SESSIONS COUNT

It says `ready`, waits for a line, runs, and prints its figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torvyn
from torvyn._io.process import shorten_switch_interval

TOKENS_PER_S: Final = 50
LEAD_S: Final = 1.0
"""How long after the start of a source its first token is due: the other end starts as well."""
TICK_S: Final = 0.0005
"""How often the source looks which tokens are due, in both programs."""
PAYLOAD: Final = b"x" * 100
MOST_AT_ONCE: Final = 1000
"""How many elements a message by hand has at most."""


class Paced(torvyn.Source):
    """Tokens of many sessions, in turn. Each has the time at which it is due: what holds the source
    back makes all that comes later late as well."""

    def __init__(self, sessions: int, count: int) -> None:
        super().__init__()
        self._sessions, self._count = sessions, count
        self._every_ns = 1e9 / (sessions * TOKENS_PER_S)
        self._next = 0
        self._began_ns = 0
        self.began_cpu_s = 0.0
        """The CPU time of this process before its first token. The sink has the same."""

    def pull(self) -> object:
        if self._next >= self._count:
            return None
        now_ns = time.monotonic_ns()
        if not self._began_ns:
            self._began_ns, self.began_cpu_s = now_ns + int(LEAD_S * 1e9), time.process_time()
        due_ns = self._began_ns + int(self._next * self._every_ns)
        if now_ns < due_ns:
            return torvyn.PENDING.after(max((due_ns - now_ns) / 1e9, TICK_S))
        session = self._next % self._sessions
        self._next += 1
        return f'{{"s": "session-{session}", "t": {due_ns}}}'


class Repeated(torvyn.Source):
    def __init__(self, count: int) -> None:
        super().__init__()
        self._left = count

    def pull(self) -> bytes | None:
        if not self._left:
            return None
        self._left -= 1
        return PAYLOAD


class Latencies(torvyn.Sink):
    """How long ago each token was due, and whether each session's come in order."""

    all_ns: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.all_ns = []
        self.began_cpu_s = 0.0
        self._last: dict[str, int] = {}
        self._began_ns = self._ended_ns = 0

    def push(self, element: torvyn.Element) -> None:
        self.note(json.loads(element.text))

    def note(self, token: dict[str, Any]) -> None:
        session, due_ns = token["s"], token["t"]
        if not self.all_ns:
            self._began_ns, self.began_cpu_s = due_ns, time.process_time()
        self._ended_ns = time.monotonic_ns()
        self.all_ns.append(self._ended_ns - due_ns)
        assert self._last.get(session, 0) < due_ns, "a session's tokens came out of order, or twice"
        self._last[session] = due_ns

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.all_ns)
        late = sorted(self.all_ns[-len(ordered) // 10 :])
        return {
            "count": len(ordered),
            "p50": ordered[len(ordered) // 2] / 1e6,
            "p99": ordered[len(ordered) * 99 // 100] / 1e6,
            "end_p50": late[len(late) // 2] / 1e6,
            "took_s": (self._ended_ns - self._began_ns) / 1e9,
        }


class PassOn(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return element.text


def run_edge(what: str, end: str, url: str, sessions: int, count: int) -> dict[str, float]:
    """`end`: `both` for a memory edge in this process."""
    os.environ["TORVYN_CLUSTER__NATS"] = url
    source, sink = Paced(sessions, count), Latencies()
    flow = torvyn.Flow(name=what)
    if what == "sessions":
        flow.add("write", source).add("read", PassOn, key="s", max_keys=10**5)
        flow.add("end", sink).connect("read", "end")
    else:
        flow.add("write", Repeated(count)).add("read", "null")
    if end == "both":
        part = flow.connect("write", "read")
    else:
        flow.connect("write", "read", carrier="nats", queue_depth=4096)
        plan = flow.plan
        assert plan.cluster is not None
        part = torvyn.Flow.from_plan(replace(plan, cluster=replace(plan.cluster, segments=(end,))))
    _wait_for_start()
    began_s = time.monotonic()
    part.run()
    took_s = time.monotonic() - began_s
    cpu_s = time.process_time() - (source.began_cpu_s or sink.began_cpu_s)
    figures = sink.figures() if sink.all_ns else {"count": part.statistics.edges[-1].taken}
    return {"took_s": took_s, **figures, "cpu_s": cpu_s}


async def run_by_hand(what: str, end: str, url: str, sessions: int, count: int) -> dict[str, float]:
    """One message for all elements that are due, as a careful program with nats-py would do it."""
    import nats
    from nats.js.api import StreamConfig

    client = await nats.connect(url)
    js = client.jetstream(publish_async_max_pending=256)
    await js.add_stream(StreamConfig(name="HAND", subjects=["hand"]))
    await asyncio.to_thread(_wait_for_start)
    began_s = time.monotonic()
    paced, sink = Paced(sessions, count), Latencies()
    if end == "write":
        figures = await _publish(js, paced if what == "sessions" else Repeated(count))
    else:
        figures = await _receive(js, what, count, sink)
    took_s = time.monotonic() - began_s
    cpu_s = time.process_time() - (paced.began_cpu_s or sink.began_cpu_s)
    await client.close()
    return {"took_s": took_s, **figures, "cpu_s": cpu_s}


async def _publish(js: Any, source: Any) -> dict[str, float]:
    sent = 0
    is_over = False
    while not is_over:
        due = list(_due(source))
        is_over = bool(due) and due[-1] is None
        if lines := [each for each in due if each is not None]:
            await js.publish_async("hand", b"\n".join(lines))
            sent += len(lines)
        # A full message does not wait for the next tick.
        await asyncio.sleep(0 if len(due) == MOST_AT_ONCE else TICK_S)
    await js.publish_async_completed()
    return {"count": sent}


def _due(source: Any) -> Iterator[bytes | None]:
    """The elements that the source has now, at most as many as fit into a message; None at its
    end."""
    for _ in range(MOST_AT_ONCE):
        element = source.pull()
        if element is not None and not isinstance(element, (str, bytes)):
            return
        yield element.encode() if isinstance(element, str) else element
        if element is None:
            return


async def _receive(js: Any, what: str, count: int, sink: Latencies) -> dict[str, float]:
    done, received = asyncio.Event(), 0

    async def note(message: Any) -> None:
        nonlocal received
        lines = message.data.split(b"\n")
        received += len(lines)
        if what == "sessions":
            for line in lines:
                sink.note(json.loads(line))
        if received == count:
            done.set()

    await js.subscribe("hand", ordered_consumer=True, cb=note)
    await done.wait()
    return sink.figures() if sink.all_ns else {"count": received}


def _wait_for_start() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main(arguments: Sequence[str]) -> None:
    how, what, end, url, sessions, count = arguments
    # As `torvyn run` does.
    shorten_switch_interval()
    if how == "hand":
        figures = asyncio.run(run_by_hand(what, end, url, int(sessions), int(count)))
    else:
        figures = run_edge(what, end, url, int(sessions), int(count))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
