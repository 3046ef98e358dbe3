"""Authentication: the API key of a request -> its caller, for every transport.

Without a key file every caller is `ANYONE`, and nothing here costs anything.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    nullcontext,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torvyn._manifest.records import PRIORITIES
from torvyn.transport.access.audit import Audit
from torvyn.transport.access.caller import ANYONE, Caller
from torvyn.transport.access.key_limits import KeyLimits
from torvyn.transport.access.keyring import Keyring, has_expired, key_in
from torvyn.transport.rejection import Rejection
from torvyn.transport.settings import ServerSettings
from torvyn.transport.workers.share import WHOLE

if TYPE_CHECKING:
    from torvyn.transport.sessions.servers.key_limits import SharedKeyLimits

_NO_LIMITS: Final = nullcontext()


class Authenticator:
    def __init__(
        self, settings: ServerSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = KeyLimits(clock)
        self.audit = Audit(settings.audit, settings.audit_file, clock)
        self._keyring: Keyring | None = None
        self.shared: SharedKeyLimits | None = None
        """The limits of keys over several servers, if this is one of them."""
        if settings.keys:
            # Servers that share their sessions share the limits of keys as well.
            share = WHOLE if settings.shares_sessions else settings.share
            self._keyring = Keyring(Path(settings.keys), clock, share)

    @property
    def has_keys(self) -> bool:
        return self._keyring is not None

    @property
    def has_tenants(self) -> bool:
        """Whether there are keys of more than one tenant."""
        return self._keyring is not None and self._keyring.has_tenants

    def identify(self, headers: Mapping[str, str], **context: Any) -> Caller:
        """The caller, by HTTP headers (names in lower case) or gRPC metadata. Raises a rejection.
        `context` goes to the audit log: request id and peer."""
        if self._keyring is None:
            return ANYONE
        self.refresh()
        key = key_in(headers)
        if key is None:
            self.audit.refused("transport.key-missing", **context)
            raise _unauthorized("key-missing", "the request has no API key")
        caller = self._keyring.caller_of(key)
        if caller is None:
            self.audit.refused("transport.key-wrong", self._keyring.digest(key)[:8], **context)
            raise _unauthorized("key-wrong", "this server does not know the API key")
        if has_expired(caller):
            self.audit.refused("transport.key-expired", caller.key[:8], **context)
            raise _unauthorized("key-expired", "the API key has expired")
        self.audit.used(caller, **context)
        return caller

    def require_admin(self, caller: Caller, **context: Any) -> None:
        """Raises a rejection unless the caller may see what the server does for others."""
        if caller.is_admin:
            return
        self.audit.refused("transport.key-not-admin", caller.key[:8], **context)
        raise Rejection(
            403,
            "transport.key-not-admin",
            f"the API key `{caller.name}` may not see what the server does for others",
            hint="`torvyn keys add NAME --scope admin` creates a key that may",
        )

    def enter(self, caller: Caller) -> AbstractContextManager[None]:
        """Use in a `with` statement: one stream of the key, within its limits. Raises a rejection,
        also if the key was revoked after the connection was opened."""
        try:
            return self.limits.enter(self.check(caller))
        except Rejection as rejection:
            self.audit.refused(rejection.code, caller.key[:8] or None, key=caller.name)
            raise

    def slot(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """As `enter`, also within the limits that several servers share."""
        return _NO_LIMITS if self._keyring is None else self._limited_slot(caller)

    @asynccontextmanager
    async def _limited_slot(self, caller: Caller) -> AsyncIterator[None]:
        with self.enter(caller):
            current = self.check(caller)
            if self.shared is None or not current.is_limited:
                yield
                return
            try:
                entered = self.shared.enter(current)
                await entered.__aenter__()
            except Rejection as rejection:
                self.audit.refused(rejection.code, caller.key[:8] or None, key=caller.name)
                raise
            try:
                yield
            finally:
                await entered.__aexit__(None, None, None)

    def is_valid(self, caller: Caller) -> bool:
        return self._keyring is None or self._keyring.current(caller) is not None

    def check(self, caller: Caller) -> Caller:
        """The caller with the limits that the key file has now; raises if the key was revoked."""
        current = caller if self._keyring is None else self._keyring.current(caller)
        if current is None:
            raise revoked()
        return current

    def refresh(self) -> None:
        """Reads the key file again if it has changed."""
        change = None if self._keyring is None else self._keyring.refresh()
        if change is not None:
            self.audit.keys_changed(change.added, change.revoked)
            for key in change.revoked_keys:
                self.limits.forget(key)


def priority(caller: Caller, requested: str | None) -> str | None:
    """The priority of a request: no higher than its key allows."""
    highest = caller.priority
    if highest is None or (requested is not None and requested not in PRIORITIES):
        return requested
    if requested is None or PRIORITIES.index(requested) < PRIORITIES.index(highest):
        return highest
    return requested


def revoked() -> Rejection:
    return _unauthorized("key-revoked", "the API key was revoked or has expired")


def _unauthorized(code: str, message: str) -> Rejection:
    return Rejection(
        401,
        f"transport.{code}",
        message,
        hint="send `Authorization: Bearer KEY`; `torvyn keys add NAME` creates a key",
        headers={"www-authenticate": "Bearer"},
    )
