"""API keys and TLS of a real server, over every transport."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from keyed_server import Keyed
from live_server import Served, served

from torvyn.client import AsyncClient, Client, PermissionDeniedError
from torvyn.engine import Scripted
from torvyn.errors import Unavailable


@pytest.fixture(params=["sse", "websocket", "grpc"])
def transport(request: Any) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: Any) -> Iterator[tuple[Served, Keyed, Path]]:
    """A server with keys and a certificate, for all transports."""
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    keyed = Keyed(folder)
    keyed.add("ann")
    tls = {"tls_cert": str(folder / "cert.pem"), "tls_key": str(folder / "key.pem")}
    engine = Scripted("Hello")
    with served(engine, keys=str(keyed.path), grpc_port=0, **tls) as server:
        yield server, keyed, folder / "ca.pem"


def url_of(server: Served, transport: str) -> str:
    port = server.grpc.rpartition(":")[2] if transport == "grpc" else server.port
    return f"https://127.0.0.1:{port}"


async def test_a_client_with_a_key_and_a_trusted_certificate_gets_an_answer(
    secured: tuple[Served, Keyed, Path], transport: str
) -> None:
    server, keyed, ca = secured
    options: dict[str, Any] = {"transport": transport, "ca": ca, "key": keyed.keys["ann"]}
    async with AsyncClient(url_of(server, transport), **options) as client:
        assert (await client.stream("Hi", stateful=True).complete()).text == "Hello"
        assert await client.health() == "ready"


@pytest.mark.parametrize(("key", "code"), [("", "key-missing"), ("tv-wrong", "key-wrong")])
async def test_a_client_without_a_valid_key_is_denied(
    secured: tuple[Served, Keyed, Path], transport: str, key: str, code: str
) -> None:
    server, _, ca = secured
    options: dict[str, Any] = {"transport": transport, "ca": ca, "key": key}
    async with AsyncClient(url_of(server, transport), **options) as client:
        with pytest.raises(PermissionDeniedError) as caught:
            await client.stream("Hi").begin()

    assert caught.value.code == f"transport.{code}"
    assert "tv-wrong" not in caught.value.render()


def test_a_certificate_that_is_not_trusted_ends_it(
    secured: tuple[Served, Keyed, Path], transport: str
) -> None:
    server, keyed, _ = secured
    options: dict[str, Any] = {"transport": transport, "key": keyed.keys["ann"]}
    with Client(url_of(server, transport), **options) as client, pytest.raises(Unavailable):
        client.stream("Hi").begin()
