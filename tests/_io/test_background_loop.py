"""Loops on threads of their own: ended, interrupted, blocked, forked, and left by an exit."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator

import pytest

from torvyn._io import background_loop as module
from torvyn._io.background_loop import (
    SyncReader,
    background_loop,
    discard_background_loop,
    end_loop,
    is_background_loop,
    run_apart,
    start_loop,
    wait_for,
)


async def answer() -> int:
    return 42


async def never(ended: threading.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


def test_the_background_loop_is_one_for_all_threads() -> None:
    found, start = [], threading.Barrier(8)

    def look() -> None:
        start.wait()
        found.append(background_loop())

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [background_loop()] * 8


def test_a_loop_that_is_blocked_is_replaced_and_then_ends() -> None:
    blocked, go_on = background_loop(), threading.Event()
    blocked.call_soon_threadsafe(go_on.wait)

    discard_background_loop(blocked)

    assert wait_for(answer(), background_loop(), 10) == 42
    end_loop(blocked)
    go_on.set()
    end_loop(blocked, 10)
    assert blocked.is_closed()
    assert not is_background_loop(blocked)


def test_a_loop_that_is_ended_cancels_its_tasks_first() -> None:
    loop, ended = start_loop(), threading.Event()
    asyncio.run_coroutine_threadsafe(never(ended), loop)
    wait_for(asyncio.sleep(0), loop, 10)

    end_loop(loop, 10)

    assert ended.is_set()
    assert loop.is_closed()


def test_a_loop_may_be_ended_by_many_threads() -> None:
    loop, start = start_loop(), threading.Barrier(8)

    def end() -> None:
        start.wait()
        end_loop(loop, None)
        are_closed.append(loop.is_closed())

    are_closed: list[bool] = []
    threads = [threading.Thread(target=end) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert are_closed == [True] * 8


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_an_error_on_a_loop_reaches_who_waits_and_ends_nothing_else(
    error: type[BaseException],
) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(error):
        wait_for(fail(), background_loop(), 10)
    assert wait_for(answer(), background_loop(), 10) == 42
    with pytest.raises(error):
        run_apart(fail())


def test_a_wait_that_takes_too_long_cancels_what_it_waits_for() -> None:
    ended = threading.Event()

    with pytest.raises(TimeoutError):
        wait_for(never(ended), background_loop(), 0.01)

    assert ended.wait(10)


def test_work_apart_leaves_no_thread() -> None:
    before = set(threading.enumerate())

    async def name() -> str:
        return threading.current_thread().name

    assert run_apart(name()) == "torvyn-loop"
    assert set(threading.enumerate()) <= before


def test_an_interrupt_ends_work_apart_before_it_is_raised() -> None:
    ended = threading.Event()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await never(ended)

    with pytest.raises(KeyboardInterrupt):
        run_apart(work())
    assert ended.is_set()


def test_a_reader_that_is_dropped_leaves_nothing_on_its_loop() -> None:
    loop = start_loop()
    closed = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        try:
            while not stop.is_set():
                yield 1
        finally:
            closed.set()

    stop = threading.Event()
    reader = SyncReader(numbers(), loop, stop.set)
    next(reader)

    del reader

    assert closed.wait(10)
    deadline_s = time.monotonic() + 10
    while wait_for(_task_count(), loop, 10) > 1 and time.monotonic() < deadline_s:
        pass
    assert wait_for(_task_count(), loop, 10) == 1
    end_loop(loop, 10)


async def _task_count() -> int:
    return len(asyncio.all_tasks())


def test_a_forked_process_gets_a_loop_of_its_own() -> None:
    assert wait_for(answer(), background_loop(), 10) == 42
    # As if another thread were starting the loop at this moment.
    with module._lock:
        pid = os.fork()
        if not pid:
            os._exit(0 if wait_for(answer(), background_loop(), 10) == 42 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert wait_for(answer(), background_loop(), 10) == 42


EXITS = """
import asyncio, threading
from torvyn._io.background_loop import SyncReader, background_loop, wait_for

async def numbers():
    while True:
        yield 1
        await asyncio.sleep(0)

def read():
    reader = SyncReader(numbers(), background_loop(), lambda: None)
    next(reader)
    started.set()
    for _ in reader:
        pass

def wait():
    started.set()
    wait_for(asyncio.Event().wait(), background_loop())

started = threading.Event()
threading.Thread(target={work}, daemon=True).start()
started.wait()
"""


@pytest.mark.parametrize("work", ["read", "wait"])
def test_a_process_exits_while_a_thread_uses_the_background_loop(work: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXITS.format(work=work)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


NOT_A_DAEMON = """
import asyncio, threading
from torvyn._io.background_loop import background_loop, wait_for

async def fail():
    await asyncio.sleep(0)
    raise ConnectionError

def work():
    threading.main_thread().join()
    try:
        wait_for(fail(), background_loop())
    except ConnectionError:
        print("told")

threading.Thread(target=work).start()
"""


def test_a_thread_that_the_exit_waits_for_is_told_its_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_A_DAEMON], capture_output=True, timeout=30, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"told\n", b"")
