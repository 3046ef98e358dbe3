"""The audit log of a server: which keys were used and rejected, what ran for whom, how it ended.

It holds names and counts, never a key, a prompt or a text. Rejections are limited per minute, so a
caller that keeps trying cannot fill the disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from torvyn._io.audit_log import AuditLog
from torvyn.errors import MissingError
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

    def reopen(self) -> None:
        """Opens the audit file again. If that fails, the open one stays, and this raises."""
        self._log.reopen(_unwritable)

    def used(self, caller: Caller, **context: Any) -> None:
        """A request was accepted. Nothing is logged on a server without keys."""
        if self._log.is_enabled and caller.key:
            self._write("key.used", key=caller.name, tenant=caller.tenant, **context)

    def refused(self, code: str, key_id: str | None = None, **context: Any) -> None:
        if not self._log.is_enabled:
            return
        if self._rejections.take(self._clock(), _REJECTIONS_PER_MINUTE):
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        self._write("key.refused", code=code, key_id=key_id, suppressed=suppressed, **context)

    def started(self, call: Call) -> None:
        if self._log.is_enabled:
            self._write("stream.started", **_about(call))

    def ended(self, call: Call) -> None:
        if not self._log.is_enabled:
            return
        answer, failure = call.answer, call.failure
        self._write(
            "stream.ended",
            **_about(call),
            finish=[reason or "cancelled" for reason in answer.finish_reasons],
            filtered=answer.filtered_side,
            prompt_tokens=answer.usage.prompt_tokens,
            completion_tokens=answer.usage.completion_tokens,
            error=None if failure is None else failure.code,
        )

    def keys_changed(self, added: tuple[str, ...], revoked: tuple[str, ...]) -> None:
        """A running server has noticed that its key file changed."""
        self._write("keys.changed", added=added, revoked=revoked)

    def administered(self, event: str, **fields: Any) -> None:
        """A command added or revoked a key."""
        self._write(event, **fields)

    def _write(self, event: str, **fields: Any) -> None:
        fields = {name: value for name, value in fields.items() if value is not None}
        self._log.write(event=event, **fields)


def _about(call: Call) -> dict[str, Any]:
    caller = call.wire.caller
    return {
        "request_id": call.id,
        "key": caller.name or None,
        "tenant": caller.tenant or None,
        "flow": call.flow,
    }


def _unwritable(message: str) -> MissingError:
    hint = "set `audit_file` of `[serve]` to another file"
    return MissingError("transport.audit-unwritable", message, hint=hint)
