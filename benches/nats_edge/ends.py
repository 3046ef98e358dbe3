"""One end of a `nats` edge, or of the same by hand with nats-py, in a process of its own.

    python -m benches.nats_edge.ends WHAT END URL SESSIONS COUNT

It says `ready`, waits for a line, runs, and prints its figures as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torvyn
from torvyn.concurrency.switch_interval import shorten_switch_interval

TOKENS_PER_S: Final = 50
TICK_S: Final = 0.0005
"""How often the source looks which tokens are due, in both programs."""
PAYLOAD: Final = b"x" * 100


class Paced(torvyn.Source):
    """Tokens of many sessions, in turn, each when it is due."""

    def __init__(self, sessions: int, count: int) -> None:
        super().__init__()
        self._sessions, self._count = sessions, count
        self._next = 0
        self._began_s = 0.0

    def pull(self) -> object:
        if self._next >= self._count:
            return None
        now_s = time.monotonic()
        self._began_s = self._began_s or now_s
        due_s = self._began_s + self._next / (self._sessions * TOKENS_PER_S)
        if now_s < due_s:
            return torvyn.PENDING.after(max(due_s - now_s, TICK_S))
        session = self._next % self._sessions
        self._next += 1
        return f'{{"s": "session-{session}", "t": {time.monotonic_ns()}}}'


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
    """How long ago each token was made, and whether each session's come in order."""

    all_ns: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.all_ns = []
        self._last: dict[str, int] = {}

    def push(self, element: torvyn.Element) -> None:
        self.note(json.loads(element.text))

    def note(self, token: dict[str, Any]) -> None:
        self.all_ns.append(time.monotonic_ns() - token["t"])
        session, made_ns = token["s"], token["t"]
        assert self._last.get(session, 0) < made_ns, "a session's tokens came out of order"
        self._last[session] = made_ns

    def figures(self) -> dict[str, float]:
        ordered = sorted(self.all_ns)
        late = sorted(self.all_ns[-len(ordered) // 10 :])
        return {
            "count": len(ordered),
            "p50": ordered[len(ordered) // 2] / 1e6,
            "p99": ordered[len(ordered) * 99 // 100] / 1e6,
            "end_p50": late[len(late) // 2] / 1e6,
        }


class PassOn(torvyn.Processor):
    def process(self, element: torvyn.Element) -> str:
        return element.text


def run_edge(what: str, end: str, url: str, sessions: int, count: int) -> dict[str, float]:
    os.environ["TORVYN_CLUSTER__NATS"] = url
    sink = Latencies()
    flow = torvyn.Flow(name=what)
    if what == "sessions":
        flow.add("write", Paced(sessions, count)).add("read", PassOn, key="s", max_keys=10**5)
        flow.add("end", sink).connect("read", "end")
    else:
        flow.add("write", Repeated(count)).add("read", "null")
    flow.connect("write", "read", carrier="nats", queue_depth=4096)
    plan = flow.plan
    assert plan.cluster is not None
    cluster = replace(plan.cluster, segments=(end,))
    part = torvyn.Flow.from_plan(replace(plan, cluster=cluster))
    _wait_for_start()
    began_s = time.monotonic()
    part.run()
    took_s = time.monotonic() - began_s
    edge = part.statistics.edges[-1]
    figures = sink.figures() if sink.all_ns else {"count": edge.taken}
    return {**figures, "took_s": took_s, "cpu_s": time.process_time()}


async def run_by_hand(what: str, end: str, url: str, sessions: int, count: int) -> dict[str, float]:
    """One message per element, as a program with nats-py would do it."""
    import nats
    from nats.js.api import StreamConfig

    client = await nats.connect(url)
    js = client.jetstream(publish_async_max_pending=256)
    await js.add_stream(StreamConfig(name="HAND", subjects=["hand.*"]))
    await asyncio.to_thread(_wait_for_start)
    began_s = time.monotonic()
    if end == "write":
        source = Paced(sessions, count) if what == "sessions" else Repeated(count)
        figures = await _publish(js, source)
    else:
        figures = await _receive(js, what, count)
    await client.close()
    return {**figures, "took_s": time.monotonic() - began_s, "cpu_s": time.process_time()}


async def _publish(js: Any, source: Any) -> dict[str, float]:
    sent = 0
    while (token := source.pull()) is not None:
        if isinstance(token, (str, bytes)):
            body = token if isinstance(token, bytes) else token.encode()
            subject = f"hand.{json.loads(token)['s']}" if isinstance(token, str) else "hand.x"
            await js.publish_async(subject, body)
            sent += 1
        else:
            await asyncio.sleep(TICK_S)
    await js.publish_async_completed()
    return {"count": sent}


async def _receive(js: Any, what: str, count: int) -> dict[str, float]:
    sink = Latencies()
    done, received = asyncio.Event(), 0

    async def note(message: Any) -> None:
        nonlocal received
        received += 1
        if what == "sessions":
            sink.note(json.loads(message.data))
        if received == count:
            done.set()

    await js.subscribe("hand.*", ordered_consumer=True, cb=note)
    await done.wait()
    return sink.figures() if sink.all_ns else {"count": received}


def _wait_for_start() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main(arguments: Sequence[str]) -> None:
    how, what, end, url, sessions, count = arguments
    # As `torvyn run` does.
    shorten_switch_interval()
    if how == "edge":
        figures = run_edge(what, end, url, int(sessions), int(count))
    else:
        figures = asyncio.run(run_by_hand(what, end, url, int(sessions), int(count)))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
