"""The audit of a server: which keys were used and refused, what ran for whom and how it ended.

Names and counts, never a key, a prompt or a text. Who is refused without end adds a few lines and
not a full disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torvyn.engine.request import SHOWN_ID
from torvyn.errors import MissingError
from torvyn.sandbox.audit_log import AuditLog
from torvyn.transport.access.key_limits import RateLimiter

if TYPE_CHECKING:
    from torvyn.transport.access.caller import Caller
    from torvyn.transport.call import Call

logger = logging.getLogger("torvyn.transport")

_REJECTIONS_PER_MINUTE: Final = 60


class Audit:
    def __init__(
        self, to: str = "none", file: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = AuditLog(to, file, logger)
        self._log.open(_unwritable)
        self._clock = clock
        self._rejections = RateLimiter()
        self._suppressed = 0

    def used(self, caller: Caller, **where: Any) -> None:
        """A request was let in. Where nobody is asked for a key, there is none to write down."""
        if self._log.is_enabled and caller.key:
            self._write("key.used", key=caller.name, tenant=caller.tenant, **where)

    def refused(self, code: str, key_id: str | None = None, **where: Any) -> None:
        if not self._log.is_enabled:
            return
        if self._rejections.take(self._clock(), _REJECTIONS_PER_MINUTE):
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        self._write("key.refused", code=code, key_id=key_id, suppressed=suppressed, **where)

    def started(self, call: Call) -> None:
        if self._log.is_enabled:
            self._write("stream.started", **_about(call))

    def ended(self, call: Call) -> None:
        if not self._log.is_enabled:
            return
        generation, failure = call.generation, call.failure
        self._write(
            "stream.ended",
            **_about(call),
            finish=[reason or "cancelled" for reason in generation.finish_reasons],
            filtered=generation.filtered_side,
            prompt_tokens=generation.usage.prompt_tokens,
            completion_tokens=generation.usage.completion_tokens,
            error=None if failure is None else failure.code,
        )

    def keys_changed(self, added: tuple[str, ...], gone: tuple[str, ...]) -> None:
        """A running server has noticed that its key file is another."""
        self._write("keys.changed", added=added, revoked=gone)

    def administered(self, event: str, **fields: Any) -> None:
        """Somebody has added or revoked a key, by a command."""
        self._write(event, **fields)

    def _write(self, event: str, **fields: Any) -> None:
        told = {name: value for name, value in fields.items() if value is not None}
        self._log.write(event=event, **told)


def _about(call: Call) -> dict[str, Any]:
    caller = call.wire.caller
    return {
        "stream": call.id[:SHOWN_ID],
        "request_id": call.wire.request_id,
        "key": caller.name or None,
        "tenant": caller.tenant or None,
        "flow": call.flow,
    }


def _unwritable(message: str) -> MissingError:
    hint = "`audit_file` of `[serve]` names another one"
    return MissingError("transport.audit-unwritable", message, hint=hint)
