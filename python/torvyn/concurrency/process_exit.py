"""The end of the process, as daemon threads see it: they get no answer any more, and no error.

When the main thread has returned, models and connections are closed, and only daemon threads are
left. The interpreter stops each of them where it waits. One that asks for something in between
would get "it is closed", which nobody handles: a traceback after the last line of the program. So
it waits instead, as it would for any other answer that comes too late.
"""

from __future__ import annotations

import asyncio
import threading

from torvyn.concurrency.background_loop import is_background_loop


def is_abandoned() -> bool:
    """Whether the process is exiting without waiting for this thread."""
    main = threading.main_thread()
    return not main.is_alive() and threading.current_thread() is not main


def wait_if_abandoned() -> None:
    """Call it before raising on a reader's thread. Never returns on an abandoned thread."""
    if is_abandoned():
        threading.Event().wait()


async def await_if_abandoned() -> None:
    """The same for coroutines on a loop of the program's own. On the background loop it returns:
    its reader is on another thread, which may be the main one."""
    loop = asyncio.get_running_loop()
    if is_abandoned() and not is_background_loop(loop):
        await loop.create_future()
