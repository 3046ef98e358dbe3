"""A sync client's reader when the process exits: no answer, and no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, atexit, threading
from torvyn._io.background_loop import background_loop
from torvyn._io.background_loop import SyncReader, wait_for

closed = asyncio.Event()

async def item():
    await closed.wait()
    raise ConnectionError("closed")

async def items():
    yield await item()

def read():
    ready.set()
    {read}

@atexit.register
def close():
    background_loop().call_soon_threadsafe(closed.set)
    thread.join(0.3)
    print("waits" if thread.is_alive() else "ended")

ready = threading.Event()
thread = threading.Thread(target=read, daemon=True)
thread.start()
ready.wait()
"""


@pytest.mark.parametrize(
    "read",
    [
        "next(SyncReader(items(), background_loop(), closed.set))",
        "wait_for(item(), background_loop())",
    ],
)
def test_a_daemon_thread_gets_no_error_when_its_connection_closes_at_exit(read: str) -> None:
    command = [sys.executable, "-c", PROGRAM.format(read=read)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "waits\n", "")
