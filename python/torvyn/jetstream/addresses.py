"""The addresses of a broker, and who we are there.

Both connections of a flow read them here, so that they mean the same to both: nats-py takes a
password as it is written, and async-nats takes none from an address.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from torvyn.jetstream.failures import unavailable_at_start
from torvyn.text.redaction import without_credentials


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    urls: tuple[str, ...]
    """Without credentials."""
    user: str | None = None
    password: str | None = None
    token: str | None = None

    @classmethod
    def parse(cls, text: str) -> BrokerAddresses:
        """`nats://user:password@host:port` or `nats://token@host:port`, several with commas between
        them. Special characters are percent-encoded. The first address with credentials counts."""
        parsed = [_split(url.strip()) for url in text.split(",")]
        urls = tuple(url._replace(netloc=url.netloc.rpartition("@")[2]).geturl() for url in parsed)
        known = next((url for url in parsed if url.username), None)
        if known is None:
            return cls(urls)
        name = unquote(known.username or "")
        if known.password is None:
            return cls(urls, token=name)
        return cls(urls, name, unquote(known.password))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url if "://" in url else f"nats://{url}")
    except ValueError as error:
        raise unavailable_at_start(without_credentials(url), str(error)) from None
