"""Where sessions are kept: the URL of a broker, and the names of streams and subjects there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from torvyn.errors import MissingError

_SCHEMES: Final = ("nats://", "tls://")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{0,32}")


def is_address(session_store: str | None) -> bool:
    """Whether a `session_store` is a broker, not a file."""
    return session_store is not None and session_store.startswith(_SCHEMES)


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """`nats://HOST:PORT[,HOST:PORT...][/NAME]`. Servers with the same name share their sessions."""

    servers: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, text: str) -> StoreAddress:
        scheme, mark, rest = text.partition("://")
        hosts, _, name = rest.partition("/")
        if not hosts or not _NAME.fullmatch(name):
            raise MissingError(
                "session.cannot-open",
                f"`session_store` is not an address of a broker: {shown(text)}",
                hint="for example `nats://10.0.0.2:4222` or `nats://10.0.0.2:4222/staging`; a name "
                "consists of up to 32 letters, digits, `_` and `-`",
            )
        return cls(tuple(f"{scheme}{mark}{host}" for host in hosts.split(",")), name)

    def __str__(self) -> str:
        """Without passwords."""
        return ", ".join(map(shown, self.servers))

    @property
    def frames_stream(self) -> str:
        return f"tv-sessions-{self.name}" if self.name else "tv-sessions"

    @property
    def prompts_stream(self) -> str:
        return f"{self.frames_stream}-prompts"

    @property
    def records_bucket(self) -> str:
        return f"{self.frames_stream}-records"

    @property
    def limits_bucket(self) -> str:
        return f"{self.frames_stream}-limits"

    def frames_subject(self, id: str) -> str:
        return self._subject("session", id)

    def prompt_subject(self, id: str) -> str:
        return self._subject("prompt", id)

    def control_subject(self, server: str) -> str:
        return self._subject("control", server)

    def _subject(self, kind: str, last: str) -> str:
        return ".".join(part for part in ("tv", kind, self.name, last) if part)


def bucket_stream(bucket: str) -> str:
    """The stream of a key-value bucket."""
    return f"KV_{bucket}"


def bucket_subject(bucket: str, key: str) -> str:
    return f"$KV.{bucket}.{key}"


def cannot_open(address: StoreAddress, why: str) -> MissingError:
    return MissingError(
        "session.cannot-open",
        f"cannot open the session store at `{address}`: {why}",
        hint="start the broker (`nats-server -js`), or correct `session_store` of `[serve]`",
    )


def shown(url: str) -> str:
    """The URL without user name and password."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{','.join(host.rpartition('@')[2] for host in rest.split(','))}"
