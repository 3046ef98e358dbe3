"""A broker that wants a token, a password, a key or a certificate: elements go over a connection of
their own, which needs the same."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nats_keys import USER, Operator, new_seed, public_key
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


def settings(monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"TORVYN_CLUSTER__{name.upper()}", str(value))


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def test_secrets_in_files(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured("--user", "shop", "--pass", "p@ss word")
    password = written(tmp_path / "password", "p@ss word\n")
    settings(monkeypatch, user="shop", password_file=password)
    run_chain()


def test_a_token_in_a_file(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured("--auth", "s3cret")
    settings(monkeypatch, token_file=written(tmp_path / "token", "s3cret\n"))
    run_chain()


@pytest.mark.parametrize("is_file", [False, True], ids=["variable", "file"])
def test_an_nkey(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool
) -> None:
    seed = new_seed(USER)
    users = f"authorization {{ users = [ {{ nkey: {public_key(seed)} }} ] }}"
    secured("-c", str(written(tmp_path / "nats.conf", users)))
    if is_file:
        settings(monkeypatch, nkey_file=written(tmp_path / "seed", f"{seed}\n"))
    else:
        settings(monkeypatch, nkey=seed)
    run_chain()


def test_a_creds_file(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Operator()
    secured("-c", str(written(tmp_path / "nats.conf", operator.config)))
    settings(monkeypatch, credentials_file=written(tmp_path / "user.creds", operator.creds))
    run_chain()


def test_a_certificate_of_the_client(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trustme

    authority = trustme.CA()
    trusted = str(tmp_path / "trusted")
    authority.cert_pem.write_to_path(trusted)
    files = {}
    for who in ("127.0.0.1", "shop@example.com"):
        made = authority.issue_cert(who)
        key, chain_file = (str(tmp_path / f"{name}-{len(files)}") for name in ("key", "chain"))
        made.private_key_pem.write_to_path(key)
        made.cert_chain_pems[0].write_to_path(chain_file)
        files[who] = chain_file, key
    certificate, key = files["127.0.0.1"]
    tls = ("--tls", "--tlscert", certificate, "--tlskey", key)
    secured(*tls, "--tlsverify", "--tlscacert", trusted, scheme="tls")
    settings(monkeypatch, ca_file=trusted)
    with pytest.raises(FlowError, match=r"(?i)certificate|reset|closed") as caught:
        chain(("a", texts(1)), ("b", Collected())).run()
    assert caught.value.code == "broker.away"
    certificate, key = files["shop@example.com"]
    settings(monkeypatch, cert_file=certificate, key_file=key)
    run_chain()


SECRET = "SUAsecretsecretsecret"


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("nkey", SECRET, "is not the seed of a user"),
        ("nkey_file", SECRET, "is not the seed of a user"),
        ("credentials_file", f"-----BEGIN USER NKEY SEED-----\n{SECRET}", "has no block"),
        ("password_file", None, "cannot be read: no such file"),
        ("token_file", None, "cannot be read: no such file"),
        ("ca_file", SECRET, "cannot be used"),
    ],
)
def test_credentials_that_cannot_be_used_end_the_start_and_are_not_shown(
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    key: str,
    text: str | None,
    reason: str,
) -> None:
    secured()
    file = tmp_path / "secret"
    if text is not None:
        file.write_text(text)
    settings(monkeypatch, **{key: text if key == "nkey" else file})
    flow = chain(("a", texts(1)), ("b", Collected()))
    with pytest.raises(FlowError, match=reason) as caught:
        flow.run()
    assert caught.value.code == "broker.credentials"
    shown = f"{caught.value}{caught.value.hint}{caplog.text}{flow.plan!r}{flow.plan.to_dict()}"
    assert SECRET not in shown


@pytest.mark.parametrize("credentials", ["", "wrong@", "shop:wrong@"])
def test_whom_the_broker_does_not_know_is_told_at_once(secured: Secured, credentials: str) -> None:
    secured("--user", "shop", "--pass", "right", credentials=credentials)
    with pytest.raises(FlowError, match=r"(?i)authorization violation") as caught:
        chain(("a", texts(1)), ("b", Collected())).run()
    assert caught.value.code == "broker.away"
    assert "credentials" in (caught.value.hint or "")
    assert "wrong" not in str(caught.value)


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
