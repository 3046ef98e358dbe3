"""Admission: which requests are admitted first, and which are rejected first."""

from __future__ import annotations

import asyncio

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within

from torvyn.transport.access.admission import Admission
from torvyn.transport.access.authentication import priority
from torvyn.transport.access.caller import Caller
from torvyn.transport.rejection import Rejection

CASES = [
    (None, None, None),
    (None, "critical", "critical"),
    ("high", None, "high"),
    ("high", "critical", "high"),
    ("high", "low", "low"),
    ("low", "normal", "low"),
    ("low", "nonsense", "nonsense"),
]


@pytest.mark.parametrize(("most", "asked", "has"), CASES)
def test_a_request_has_no_more_priority_than_its_key(most, asked, has) -> None:
    assert priority(Caller(priority=most), asked) == has


class Crowd:
    """An admission whose places are taken, and those who wait for one."""

    def __init__(self, places: int, waiting: int) -> None:
        self.admission = Admission(places, wait_s=5)
        self.admission._max_waiting = waiting
        self.admission._free = 0
        self.let_in: list[str] = []

    def ask(self, name: str) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._ask(name))

    async def _ask(self, name: str) -> None:
        async with self.admission.slot(name.partition("-")[0]):
            self.let_in.append(name)


async def test_waiting_requests_are_admitted_by_priority_then_in_order() -> None:
    crowd = Crowd(places=1, waiting=6)
    names = ["low-1", "normal-1", "critical-1", "low-2", "critical-2", "background-1"]
    tasks = [crowd.ask(name) for name in names]
    await asyncio.sleep(0)

    crowd.admission.release()
    await asyncio.gather(*tasks)

    order = ["critical-1", "critical-2", "normal-1", "low-1", "low-2", "background-1"]
    assert crowd.let_in == order


async def test_a_full_queue_rejects_the_lowest_and_last_request() -> None:
    crowd = Crowd(places=1, waiting=2)
    low, last = crowd.ask("low-1"), crowd.ask("low-2")
    await asyncio.sleep(0)

    high = crowd.ask("high-1")
    with pytest.raises(Rejection, match="maximum number of answers"):
        await within(last)
    with pytest.raises(Rejection):
        await crowd.ask("low-3")
    crowd.admission.release()
    await within(asyncio.gather(high, low))

    assert crowd.let_in == ["high-1", "low-1"]
    assert (crowd.admission.rejected, crowd.admission.free) == (2, 1)


@pytest.mark.parametrize("end", ["in time", "too late", "left"])
async def test_a_place_is_never_lost(end: str) -> None:
    crowd = Crowd(places=1, waiting=1)
    crowd.admission._wait_s = 0.0 if end == "too late" else 5
    task = crowd.ask("normal-1")
    await asyncio.sleep(0)
    if end == "left":
        task.cancel()
    crowd.admission.release()
    await asyncio.wait([task])

    assert (crowd.admission.free, crowd.admission.waiting) == (1, 0)


async def test_under_load_a_request_of_a_better_key_overtakes(keyed) -> None:
    keyed.add("vip", priority="critical")
    keyed.add("batch", priority="background")
    engine = Gated()
    admission = keyed.serve(engine, max_streams=2, admission_wait_s=5).admission
    running = [keyed.ask("first"), keyed.ask("first")]
    for client in running:
        await client.until(1)
    waiting = [
        keyed.ask(name, body={**PROMPT_BODY, "priority": "critical"}) for name in ("batch", "vip")
    ]
    while admission.waiting < 2:
        await asyncio.sleep(0)
    engine.tokens.put_nowait(None)
    await waiting[1].until(1)

    assert not waiting[0].status


async def test_a_request_without_keys_may_say_its_priority() -> None:
    application = serving(Gated())
    client = Client(application, body={**PROMPT_BODY, "priority": "high"})
    await client.until(1)
    (call,) = application.running.calls.values()

    assert call.answer.request.priority == "high"
