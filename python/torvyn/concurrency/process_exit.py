"""What daemon threads do while the process exits: they wait, and raise no errors.

When the main thread has returned, models and connections are closed while daemon threads still run;
the interpreter then stops them where they wait. A call of such a thread would fail because its
connection is closed, and print a traceback after the program has ended. So the thread waits
instead.
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
    """Call this before raising on a reader's thread. It never returns on an abandoned thread."""
    if is_abandoned():
        threading.Event().wait()


async def await_if_abandoned() -> None:
    """The same for coroutines on a loop of the program. On the background loop it returns, because
    the reader is on another thread, which may be the main one."""
    loop = asyncio.get_running_loop()
    if is_abandoned() and not is_background_loop(loop):
        await loop.create_future()
