"""The options of a client: TLS, addresses, limits. Invalid values are rejected at once."""

from __future__ import annotations

import inspect
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from faulty_server import TEXT, FaultyServer

from torvyn.client import AsyncClient
from torvyn.client.client import Options
from torvyn.errors import InvalidInput, Unavailable


@asynccontextmanager
async def secure_client(folder: Path, **options: Any) -> AsyncIterator[AsyncClient]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server_script = FaultyServer()
    server_script.tls = context
    async with server_script.serving() as server, AsyncClient(server.url, **options) as client:
        yield client


async def test_a_certificate_of_an_unknown_authority_is_not_trusted(tmp_path: Path) -> None:
    async with secure_client(tmp_path) as client:
        with pytest.raises(Unavailable, match="its certificate is not trusted") as caught:
            await client.stream("Hi").begin()

    assert caught.value.hint == "pass the file of certificates to trust as `ca`"


@pytest.mark.parametrize("way", ["ca", "verify"])
async def test_one_that_is_named_or_any_is_trusted(tmp_path: Path, way: str) -> None:
    async with secure_client(tmp_path) as client:
        options = {"ca": {"ca": tmp_path / "ca.pem"}, "verify": {"verify": False}}
        async with AsyncClient(client.url, **options[way]) as trusting:
            assert (await trusting.stream("Hi").complete()).text == TEXT


@pytest.mark.parametrize(
    "options",
    [
        {"ca": "not-there.pem"},
        {"key": "two words"},
        {"key": "line\nend"},
        {"jitter": -1},
        {"idle_timeout_s": 0},
        {"resumes": -1},
        {"transport": "pigeon"},
    ],
)
def test_an_invalid_option_is_an_error(options: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        AsyncClient("http://127.0.0.1", **options)

    assert caught.value.code == "client.bad-option"
    assert "line" not in caught.value.render()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://a", "http://", "http://u:p@a", "http://a?x", "http://a:x", 7]
)
def test_an_invalid_address_is_an_error(url: Any) -> None:
    with pytest.raises(InvalidInput, match="the server's address"):
        AsyncClient(url)


def test_both_clients_take_the_same_options() -> None:
    named = set(inspect.signature(AsyncClient).parameters) - {"url"}

    assert named == set(Options.__annotations__)
