"""Runs a coroutine for a caller that is not asynchronous, or whose event loop must not wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_apart(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the coroutine, which runs on an event loop and a thread of its own: it writes
    files, and would delay whatever else ran there. An interrupt cancels it."""
    result: Future[Result] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Result]]] = Future()
    thread = threading.Thread(
        target=_run, args=(work, started, result), name="torvyn-apart", daemon=True
    )
    thread.start()
    try:
        return result.result()
    except KeyboardInterrupt:
        loop, task = started.result()
        loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()


def _run(work: Coroutine[Any, Any, Result], started: Future[Any], result: Future[Result]) -> None:
    async def main() -> Result:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    try:
        with asyncio.Runner() as runner:
            result.set_result(runner.run(main()))
    except BaseException as error:
        result.set_exception(error)
