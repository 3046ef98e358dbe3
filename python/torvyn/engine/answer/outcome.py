"""How a run on an engine ends: the last pieces, and the error, if there is one.

The message of an error names the class of a library's exception; its text, which may repeat
addresses, goes into a note and into the log. Clients of a server see less still: see
`transport/public_error.py`.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING, Self

from torvyn.engine.delta import Piece
from torvyn.engine.upstream_text import printable
from torvyn.errors import Internal, TorvynError
from torvyn.protocol.frames import FinishReason

if TYPE_CHECKING:
    from torvyn.engine.answer.engine_run import EngineRun

logger = logging.getLogger("torvyn.engine")
# Without a logging setup, Python prints errors to stderr; the exception is enough there.
logger.addHandler(logging.NullHandler())


class Outcome:
    """Wraps the loop over an engine. However the loop ends, the engine and its flows end too."""

    def __init__(self, run: EngineRun) -> None:
        self._run = run
        self.pieces: list[Piece] = []
        self.failure: Exception | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        run = self._run
        reason: FinishReason = "stop"
        is_ours = False
        if isinstance(error, asyncio.CancelledError):
            is_left = run.is_reader_cancelled()
            is_ours = run.takes_back_cancellation() or (run.is_interrupted and not is_left)
            if not is_ours and not is_left:
                error = _cancelled_itself(error)
        run.task = None
        if isinstance(error, Exception):
            self.failure, reason = engine_error(error, run.request.id), "error"
        elif run.is_interrupted and (error is None or is_ours):
            reason = run.interrupt_reason
        elif error is not None or (run.inline_flows is not None and run.inline_flows.is_cut):
            reason = "cancelled"
        self._end(reason)
        await run.close_steps()
        return error is None or self.failure is not None or is_ours

    def _end(self, reason: FinishReason) -> None:
        run, flows = self._run, self._run.inline_flows
        *pieces, usage = run.end(reason)
        if flows is not None:
            try:
                early = () if run.direct is None else run.direct.absorb()
                pieces = [*early, *flows.feed(pieces)]
            except Exception as error:  # a flow fails with its last input
                self.failure = self.failure or engine_error(error, run.request.id)
                pieces, reason = [], "error"
            flows.close()
            pieces += flows.end(reason)
        self.pieces = [*pieces, usage]


def _cancelled_itself(error: asyncio.CancelledError) -> Internal:
    failed = Internal("the engine cancelled its own task", code="engine.failed")
    failed.__cause__ = error
    return failed


def engine_error(error: Exception, request_id: str) -> Exception:
    """The error that a client may see. Anything but a typed error is the engine's own fault."""
    if isinstance(error, TorvynError):
        return error
    failed = Internal(f"the engine failed: {type(error).__name__}", code="engine.failed")
    failed.add_note(f"{type(error).__name__}: {printable(str(error))}")
    failed.__cause__ = error
    logger.error(
        "request %s: the engine failed",
        request_id,
        exc_info=error,
        extra={"event": "engine.failure", "request_id": request_id},
    )
    return failed
