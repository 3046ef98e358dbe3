"""A broker that wants a token, a password or TLS: elements go over a connection of their own, which
needs the same."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nats_parts import Collected, chain, check_account, part, sums, texts
from nats_parts import Sum as Sums

from nats_server import NatsServer
from torvyn.errors import FlowError

Secured = Callable[..., NatsServer]


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    """Starts a server with these arguments, at an address with these credentials."""
    servers: list[NatsServer] = []

    def start(*arguments: str, scheme: str = "nats", credentials: str = "") -> NatsServer:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        server = NatsServer(port, tmp_path / "nats", arguments)
        servers.append(server)
        server.start()
        monkeypatch.setenv("TORVYN_CLUSTER__NATS", f"{scheme}://{credentials}127.0.0.1:{port}")
        return server

    yield start
    for server in servers:
        server.stop()


def run_chain() -> None:
    """Through a segment that is saved by cuts, and one that is not."""
    sink = Collected()
    flow = chain(("a", texts(200)), ("sum", Sums()), ("b", sink))
    for segment in ("a", "sum", "b"):
        running = part(flow, segment)
        running.run()
        check_account(running)
    assert sink.texts == sums(200)


def test_a_token(secured: Secured) -> None:
    secured("--auth", "s3cret", credentials="s3cret@")
    run_chain()


def test_a_password_with_odd_characters(secured: Secured) -> None:
    secured("--user", "pipe line", "--pass", "p@ss:word", credentials="pipe%20line:p%40ss%3Aword@")
    run_chain()


def test_a_certificate(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trustme

    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    key, chain_file, trusted = (str(tmp_path / name) for name in ("key", "chain", "trusted"))
    made.private_key_pem.write_to_path(key)
    made.cert_chain_pems[0].write_to_path(chain_file)
    authority.cert_pem.write_to_path(trusted)
    secured("--tls", "--tlscert", chain_file, "--tlskey", key, scheme="tls")
    with pytest.raises(FlowError, match="certificate") as caught:
        # It is not trusted yet.
        chain(("a", texts(1)), ("b", Collected())).run()
    assert caught.value.code == "broker.away"
    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    run_chain()
