"""Who the flows of a project are at their broker: settings, and secrets that files hold.

A file is read when a connection is made, so that a secret that was replaced counts for the next
one. What it holds is in no message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from torvyn.errors import FlowError, os_reason


class Secrets(NamedTuple):
    """What the settings and their files say, as it is now."""

    user: str | None = None
    password: str | None = None
    token: str | None = None
    nkey: str | None = None
    """A seed."""
    creds: str | None = None
    """The content of a `.creds` file."""


NO_SECRETS: Final = Secrets()


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """The settings; empty ones are not set. Paths are absolute."""

    user: str = ""
    password_file: str = ""
    token_file: str = ""
    nkey: str = field(default="", repr=False)
    nkey_file: str = ""
    credentials_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def read(self) -> Secrets:
        """Raises `broker.credentials` if a file cannot be read."""
        creds = _content("credentials_file", self.credentials_file)
        return Secrets(
            user=self.user or None,
            password=_content("password_file", self.password_file),
            token=_content("token_file", self.token_file),
            nkey=self.nkey or _content("nkey_file", self.nkey_file),
            # async-nats finds no block whose last line has no end.
            creds=None if creds is None else f"{creds}\n",
        )

    @property
    def client_certificate(self) -> tuple[str, str] | None:
        return (self.cert_file, self.key_file) if self.cert_file else None


NO_LOGIN: Final = BrokerLogin()


def _content(key: str, file: str) -> str | None:
    if not file:
        return None
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else "it is not text"
        raise unusable(f"`{key}` of `[cluster]`: {file} cannot be read: {reason}") from None


def unusable(message: str) -> FlowError:
    return FlowError(
        "broker.credentials",
        message,
        hint="correct the settings in `[cluster]`; the guide to clusters lists them",
    )
