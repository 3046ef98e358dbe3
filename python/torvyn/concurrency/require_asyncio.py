"""The loop that torvyn needs: asyncio's. On another, such as trio's, nothing is begun."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from torvyn.errors import FlowError

NOT_ASYNCIO: Final = "loops.not-asyncio"

_OTHERS: Final = ("trio", "curio")


def require_asyncio(what: str) -> asyncio.AbstractEventLoop:
    """The running loop; raises before anything was started when it is not asyncio's."""
    loop = asyncio._get_running_loop()
    if loop is None:
        raise FlowError(
            NOT_ASYNCIO,
            f"{what} needs an asyncio loop, and is awaited on {_running()}",
            hint="run it with asyncio.run(...), or without `async` on a thread, for instance "
            "`await trio.to_thread.run_sync(flow.run)`",
        )
    return loop


def _running() -> str:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "a loop of trio"
    return "another kind of loop"


def needs_other_loop(error: BaseException | None) -> str | None:
    """The library whose loop a call needed, when the library itself has refused the call."""
    if not isinstance(error, (RuntimeError, AttributeError)):
        return None
    package = ""
    trace = error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _OTHERS and trace.tb_frame.f_code.co_name == "run":
            # It had a loop of its own, and failed for another reason.
            return None
        trace = trace.tb_next
    return package if package in _OTHERS else None
