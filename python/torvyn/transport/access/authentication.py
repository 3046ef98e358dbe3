"""Authenticator: who asks, by which key, and what that key may. The same for every transport.

Without a key file everybody is `ANYONE` and nothing here costs anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torvyn.manifest.schema.tables import PRIORITIES
from torvyn.transport.access.audit import Audit
from torvyn.transport.access.caller import ANYONE, Caller
from torvyn.transport.access.key_limits import KeyLimits
from torvyn.transport.access.keyring import LOOK_S, Keyring, is_over, presented
from torvyn.transport.rejection import Rejection
from torvyn.transport.settings import ServerSettings

if TYPE_CHECKING:
    from torvyn.transport.call import Call
    from torvyn.transport.multiplex.open_channels import OpenChannels
    from torvyn.transport.sessions.subscriber import Subscriber


class Authenticator:
    def __init__(
        self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = KeyLimits(clock)
        self.audit = Audit(settings.audit, settings.audit_file, clock)
        self._keyring = Keyring(Path(settings.keys), clock) if settings.keys else None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_keys(self) -> bool:
        return self._keyring is not None

    def identify(self, headers: Mapping[str, str], **where: Any) -> Caller:
        """Who asks, by the headers (their names in lower case) or the metadata of a call. Raises
        the rejection. `where` is for the audit: the request's id, the peer."""
        if self._keyring is None:
            return ANYONE
        self._look()
        key = presented(headers)
        if key is None:
            self.audit.refused("transport.key-missing", **where)
            raise _unauthorized("key-missing", "this server asks for a key")
        caller = self._keyring.caller_of(key)
        if caller is None:
            self.audit.refused("transport.key-wrong", self._keyring.digest(key)[:8], **where)
            raise _unauthorized("key-wrong", "the key is not one of this server's")
        if is_over(caller):
            self.audit.refused("transport.key-expired", caller.key[:8], **where)
            raise _unauthorized("key-expired", "the key has expired")
        self.audit.used(caller, **where)
        return caller

    def enter(self, caller: Caller) -> AbstractContextManager[None]:
        """`with` it: one of the key's streams, within its limits. Raises the rejection, also when
        the key is gone since its connection was made."""
        try:
            return self.limits.enter(self.check(caller))
        except Rejection as rejection:
            self.audit.refused(rejection.code, caller.key[:8] or None, key=caller.name)
            raise

    def is_good(self, caller: Caller) -> bool:
        return self._keyring is None or self._keyring.known(caller) is not None

    def check(self, caller: Caller) -> Caller:
        """The caller as the key file has it now: it may have been changed since the connection was
        made. Raises when the key is gone."""
        found = caller if self._keyring is None else self._keyring.known(caller)
        if found is None:
            raise revoked()
        return found

    def watch(
        self, calls: Mapping[str, Call], readers: Set[Subscriber], held: OpenChannels
    ) -> None:
        """While these run, the key file is looked at: what runs for a key that is gone ends."""
        if self._keyring is not None and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_S, self._sweep, calls, readers, held)

    def _sweep(
        self, calls: Mapping[str, Call], readers: Set[Subscriber], held: OpenChannels
    ) -> None:
        self._timer = None
        self._look()
        for call in list(calls.values()):
            if not self.is_good(call.wire.caller):
                call.fail(revoked())
        for reader in list(readers):
            if not self.is_good(reader.wire.caller):
                reader.end(revoked().code, revoked().message)
        for conversation in list(held):
            if not self.is_good(conversation.channel.caller):
                conversation.dismiss(revoked)
        if calls or readers or len(held):
            self.watch(calls, readers, held)

    def _look(self) -> None:
        change = None if self._keyring is None else self._keyring.refresh()
        if change is not None:
            self.audit.keys_changed(change.added, change.gone)
            for key in change.gone_keys:
                self.limits.forget(key)


def priority(caller: Caller, asked: str | None) -> str | None:
    """What a request has that asks for that much: no more than its key may."""
    most = caller.priority
    if most is None or (asked is not None and asked not in PRIORITIES):
        return asked
    if asked is None or PRIORITIES.index(asked) < PRIORITIES.index(most):
        return most
    return asked


def revoked() -> Rejection:
    return _unauthorized("key-revoked", "the key was revoked, or has expired")


def _unauthorized(word: str, message: str) -> Rejection:
    return Rejection(
        401,
        f"transport.{word}",
        message,
        hint="`Authorization: Bearer KEY`; `torvyn keys add NAME` makes one",
        headers={"www-authenticate": "Bearer"},
    )
