"""Health checks: asks members whether they are well, on the background loop.

A member is down when nothing answers at its address, or when two checks in a row have failed; one
success brings it back.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from torvyn.engine.pool.member import Member

if TYPE_CHECKING:
    from torvyn.engine.pool.members import Members

logger = logging.getLogger("torvyn.engine")
_LIMIT_S: Final = 2.0
_MOST_FAILURES: Final = 2


class HealthChecks:
    """`path` is below the member's address; one that begins with `/` is below its host."""

    def __init__(self, members: Members, path: str, limit_s: float = _LIMIT_S) -> None:
        self._members = members
        self._path = path
        self._limit_s = limit_s
        self._failures: dict[str, int] = {}

    async def check_all(self) -> None:
        await asyncio.gather(*(self.check(member) for member in self._members))
        self._members.look()

    async def check(self, member: Member) -> bool:
        """Notes what it finds; True if the member is well."""
        try:
            status = await self._status(member)
        except (OSError, TimeoutError, ValueError) as error:
            is_gone = isinstance(error, ConnectionRefusedError)
            self._note_failure(member, f"{type(error).__name__}: {error}", is_gone=is_gone)
            return False
        if status >= 500:
            self._note_failure(member, f"it answered {status}", is_gone=False)
            return False
        self._failures.pop(member.url, None)
        if member.is_up is False:
            logger.warning("the member %s of a pool is back", member.name)
            member.breaker.retry_now()
        member.is_up = True
        return True

    def _note_failure(self, member: Member, why: str, *, is_gone: bool) -> None:
        failures = self._failures[member.url] = self._failures.get(member.url, 0) + 1
        if (is_gone or failures >= _MOST_FAILURES) and member.is_up is not False:
            member.is_up = False
            extra = {"event": "pool.member-down", "member": member.name}
            logger.warning("the member %s of a pool is down: %s", member.name, why, extra=extra)

    async def _status(self, member: Member) -> int:
        url = urlsplit(member.url)
        path = self._path if self._path.startswith("/") else f"{url.path}/{self._path}"
        is_tls = url.scheme == "https"
        context = ssl.create_default_context() if is_tls else None
        port = url.port or (443 if is_tls else 80)
        async with asyncio.timeout(self._limit_s):
            reader, writer = await asyncio.open_connection(url.hostname, port, ssl=context)
            try:
                headers = {"host": url.netloc, "connection": "close"}
                if member.key:
                    headers["authorization"] = f"Bearer {member.key}"
                lines = [f"GET {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
                writer.write("\r\n".join(lines).encode())
                words = (await reader.readline()).split()
                return int(words[1]) if len(words) > 1 else 500
            finally:
                writer.close()
