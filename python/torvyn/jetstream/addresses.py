"""The addresses of a broker, and who we are there.

Both connections of a flow read them here, so that they mean the same to both: nats-py takes a
password as it is written, and async-nats takes none from an address. What is set besides an address
comes before what it says.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from torvyn._io.broker_login import NO_LOGIN, NO_SECRETS, BrokerLogin, Secrets, unusable
from torvyn._io.safe_text import without_credentials
from torvyn.errors import os_reason
from torvyn.jetstream.failures import unavailable_at_start
from torvyn.jetstream.nkeys import read_creds, sign


@dataclass(frozen=True, slots=True)
class BrokerAddresses:
    urls: tuple[str, ...]
    """Without credentials."""
    secrets: Secrets = NO_SECRETS
    login: BrokerLogin = NO_LOGIN

    @classmethod
    def parse(cls, text: str, login: BrokerLogin = NO_LOGIN) -> BrokerAddresses:
        """`nats://user:password@host:port` or `nats://token@host:port`, several with commas between
        them. Special characters are percent-encoded. The first address with credentials counts."""
        parsed = [_split(url.strip()) for url in text.split(",")]
        urls = tuple(url._replace(netloc=url.netloc.rpartition("@")[2]).geturl() for url in parsed)
        known = next((url for url in parsed if url.username), None)
        if known is None:
            return cls(urls, login=login)
        name = unquote(known.username or "")
        if known.password is None:
            return cls(urls, Secrets(token=name), login)
        return cls(urls, Secrets(name, unquote(known.password)), login)

    def read_secrets(self) -> Secrets:
        """What is known now; raises `broker.credentials`."""
        found = self.login.read()
        if any(found):
            return found._replace(password=found.password or self.secrets.password)
        return self.secrets

    def check(self) -> None:
        """Raises `broker.credentials` if what is set cannot be used."""
        secrets = self.read_secrets()
        if secrets.creds is not None:
            sign(read_creds(secrets.creds)[1], "")
        elif secrets.nkey is not None:
            sign(secrets.nkey, "")
        self.tls_context()

    def tls_context(self) -> ssl.SSLContext | None:
        """None if nothing is said about TLS; raises `broker.credentials`."""
        login = self.login
        if not (login.ca_file or login.cert_file):
            return None
        try:
            context = ssl.create_default_context(cafile=login.ca_file or None)
            if login.cert_file:
                context.load_cert_chain(login.cert_file, login.key_file or None)
        except (OSError, ValueError) as error:
            files = ", ".join(filter(None, (login.ca_file, login.cert_file, login.key_file)))
            reason = os_reason(error)
            raise unusable(
                f"the certificates of `[cluster]` ({files}) cannot be used: {reason}"
            ) from None
        return context


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url if "://" in url else f"nats://{url}")
    except ValueError as error:
        raise unavailable_at_start(without_credentials(url), str(error)) from None
