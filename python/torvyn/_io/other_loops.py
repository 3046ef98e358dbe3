"""Event loops of other libraries, on which nothing of ours runs: who needs asyncio says so.

Does not import asyncio before a loop runs: whoever explains a failure asks here, and most programs
that fail have no loop.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from torvyn.errors import FlowError

if TYPE_CHECKING:
    import asyncio

NOT_ASYNCIO: Final = "loops.not-asyncio"

_OTHERS: Final = ("trio", "curio")


def require_asyncio(what: str) -> asyncio.AbstractEventLoop:
    """The running loop; raises if it is not asyncio's."""
    import asyncio

    loop = asyncio._get_running_loop()
    if loop is None:
        raise FlowError(
            NOT_ASYNCIO,
            f"{what} needs an asyncio event loop, but runs on {_other_loop()}",
            hint="run it with asyncio.run(...), or use the sync method on a thread, for instance "
            "`await trio.to_thread.run_sync(flow.run)`",
        )
    return loop


def _other_loop() -> str:
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio's"
    return "another library's"


def needs_other_loop(error: BaseException | None) -> str | None:
    """The library whose event loop a failed call needed."""
    if not isinstance(error, (RuntimeError, AttributeError)):
        return None
    package = ""
    trace = error.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _OTHERS and trace.tb_frame.f_code.co_name == "run":
            # It ran a loop of its own, so it failed for another reason.
            return None
        trace = trace.tb_next
    return package if package in _OTHERS else None
