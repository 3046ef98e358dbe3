"""CORS: pages of listed origins may use the server from a browser, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, serving
from keyed_server import Keyed

from torvyn.engine import Scripted
from torvyn.errors import UsageError
from torvyn.transport.access.cors import Cors

APP = "https://app.example"
ASKS = {"access-control-request-method": "POST", "access-control-request-headers": "x-stainless-os"}


async def ask(origin: str, method: str = "POST", **headers: str) -> Any:
    application = serving(Scripted("a"), cors=(APP, "http://[::1]:5173"))
    sent = {"origin": origin, "sec-fetch-site": "cross-site", **headers}
    return await Client(application, body=PROMPT_BODY, method=method, headers=sent)


def about_cors(headers: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", [APP, "http://[::1]:5173"])
async def test_a_page_of_a_listed_origin_gets_an_answer_that_it_may_read(origin: str) -> None:
    client = await ask(origin)

    assert (client.status, client.headers["vary"]) == (200, "origin")
    exposed = about_cors(client.headers)["access-control-expose-headers"].split(", ")
    assert {"retry-after", "retry-after-ms", "x-request-id", "x-should-retry"} <= set(exposed)
    assert client.headers["access-control-allow-origin"] == origin
    assert client.headers["access-control-allow-credentials"] == "true"


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
@pytest.mark.parametrize(
    "origin", ["http://app.example", f"{APP}:8443", f"{APP}.evil.example", "null", ""]
)
async def test_a_page_of_another_origin_is_refused_without_a_header(
    origin: str, method: str
) -> None:
    client = await ask(origin, method, **ASKS)

    assert (client.status, about_cors(client.headers)) == (403, {})


async def test_a_browser_may_ask_before_it_has_a_key(keyed: Keyed) -> None:
    application = keyed.serve(Scripted("a"), cors=(APP,))
    sent = {"origin": APP, **ASKS}
    client = await Client(application, "/v1/chat/completions", method="OPTIONS", headers=sent)

    assert (client.status, client.body) == (204, b"")
    assert client.headers["access-control-allow-headers"] == "x-stainless-os"
    assert "POST" in client.headers["access-control-allow-methods"]
    assert client.headers["access-control-max-age"] == "600"


async def test_a_page_can_read_why_it_was_refused(keyed: Keyed) -> None:
    application = keyed.serve(Scripted("a"), cors=(APP,))
    client = await Client(application, body=PROMPT_BODY, headers={"origin": APP})

    assert (client.status, client.headers["access-control-allow-origin"]) == (401, APP)


async def test_any_origin_gets_no_credentials_and_needs_a_server_with_keys(keyed: Keyed) -> None:
    application = keyed.serve(Scripted("a"), cors=("*",))
    client = await Client(application, body=PROMPT_BODY, headers={"origin": "https://any.example"})

    assert client.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in client.headers
    with pytest.raises(UsageError, match="requires no API key"):
        serving(Scripted("a"), cors=("*",))


@pytest.mark.parametrize("origin", ["app.example", f"{APP}/", "null", "https://*.example", ""])
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(UsageError, match="is not an origin"):
        Cors([origin])


async def test_without_a_list_no_response_speaks_of_origins() -> None:
    client = await Client(serving(Scripted("a")), body=PROMPT_BODY)

    assert "vary" not in client.headers
