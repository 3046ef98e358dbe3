"""One timer for many deadlines, on every loop that we run on."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from torvyn._io.event_loop import EarliestTimer


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("offsets_s", [[0.0, 5.0], [5.0, 0.0], [-1.0, -1.0, 0.0], [5.0, 0.01]])
def test_it_is_due_at_the_earliest_time_and_once(make_loop, offsets_s):
    async def main():
        due = asyncio.Event()
        times = []
        timer = EarliestTimer(loop, lambda: (times.append(loop.time()), due.set()))
        for offset_s in offsets_s:
            timer.arm(loop.time() + offset_s)
        await asyncio.wait_for(due.wait(), 4)
        timer.close()
        return times

    loop = make_loop()
    assert len(loop.run_until_complete(main())) == 1
    loop.close()
