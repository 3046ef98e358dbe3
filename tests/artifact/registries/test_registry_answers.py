"""A registry's errors: what may pass is tried again, and the rest is explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiohttp import web
from registry_artifacts import add_artifact
from scripted_registry import ScriptedRegistry, scripted

from dripping_server import dripping
from torvyn._artifact.fetch import FetchOptions, fetch
from torvyn._artifact.layout import Layout
from torvyn._artifact.registry_http import Limits
from torvyn._artifact.registry_login import Challenge
from torvyn.errors import ArtifactError, MissingError


@pytest.fixture
def registry(layout: Layout) -> Iterator[ScriptedRegistry]:
    add_artifact(layout)
    with scripted(layout) as registry:
        yield registry


def pull(registry: ScriptedRegistry, options: FetchOptions) -> str:
    return fetch(f"oci://{registry.host}/plant:1.0", options).descriptor.digest


def failing(registry: ScriptedRegistry, status: int, times: int, **headers: str) -> None:
    left = [times]

    async def fault(_request: web.Request) -> web.StreamResponse | None:
        left[0] -= 1
        body = {"errors": [{"code": "TOOMANYREQUESTS", "message": "wait\x1b[31m"}]}
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        answer = web.json_response(body, status=status, headers=named)
        return answer if left[0] >= 0 else None

    registry.fault = fault


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failure_that_may_pass_is_tried_again(
    registry: ScriptedRegistry, options: FetchOptions, status: int
) -> None:
    failing(registry, status, 2, Retry_After="0")

    assert pull(registry, options)


@pytest.mark.parametrize("status", [400, 409, 500])
def test_a_failure_that_stays_is_explained(
    registry: ScriptedRegistry, options: FetchOptions, status: int
) -> None:
    failing(registry, status, 1000)

    with pytest.raises(MissingError) as caught:
        pull(registry, options)

    assert caught.value.code == "artifact.registry-failed"
    assert f"status {status}" in caught.value.message
    assert "TOOMANYREQUESTS wait" in caught.value.message
    assert "\x1b" not in caught.value.message


def test_a_wait_that_is_too_long_is_not_waited_for(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    failing(registry, 429, 1000, Retry_After="3600")

    with pytest.raises(MissingError, match="status 429"):
        pull(registry, replace(options, limits=Limits()))
    assert len(registry.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_denied_request_says_how_to_log_in(
    registry: ScriptedRegistry, options: FetchOptions, status: int
) -> None:
    failing(registry, status, 1000)

    with pytest.raises(MissingError, match="denied access") as caught:
        pull(registry, options)
    assert f"docker login {registry.host}" in (caught.value.hint or "")


def test_something_that_is_not_an_artifact_is_refused(
    registry: ScriptedRegistry, options: FetchOptions
) -> None:
    async def page(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    registry.fault = page

    with pytest.raises(ArtifactError, match="not an artifact"):
        pull(registry, options)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Basic realm="a"', Challenge("basic", "a")),
        ("bearer realm=https://a/t, service=b", Challenge("bearer", "https://a/t", "b")),
        (
            'Bearer realm="https://a/t?x=1",service="b, c",scope="s"',
            Challenge("bearer", "https://a/t?x=1", "b, c", "s"),
        ),
        ("Negotiate abc", None),
        ("", None),
        ('Bearer realm="unclosed', Challenge("bearer")),
    ],
)
def test_challenges_are_parsed(header: str, expected: Challenge | None) -> None:
    assert Challenge.parse(header) == expected


def test_the_address_of_a_token_keeps_the_query_of_its_realm() -> None:
    challenge = Challenge("bearer", "https://a/t?x=1", "b")

    assert challenge.token_url("repository:p:pull") == (
        "https://a/t?x=1&service=b&scope=repository%3Ap%3Apull"
    )


NOT_ADDRESSES = (
    "https://[", "http://[", "https://host:99999999/", "https://" + "a" * 70 + ".example",
    "https://a..b/", "https:///x", "ftp://host/", "https://\udcff/", "https://user:word@host/",
)  # fmt: skip


@pytest.mark.parametrize("address", NOT_ADDRESSES)
@pytest.mark.parametrize("kind", ["realm", "redirect"])
def test_an_address_that_is_none_is_refused(
    registry: ScriptedRegistry, options: FetchOptions, address: str, kind: str
) -> None:
    realm = {"WWW-Authenticate": f'Bearer realm="{address}"'}
    status, headers = (401, realm) if kind == "realm" else (307, {"Location": address})

    async def fault(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=headers)

    registry.fault = fault

    with pytest.raises(ArtifactError) as caught:
        pull(registry, options)
    assert caught.value.code == "artifact.registry-unsafe"


@pytest.mark.parametrize(
    "token",
    [b"[" * 60_000, b'{"token":' * 5000, b'{"token": "\\ud800"}', b"\xff", b"", b"1", b"[]"],
)
def test_a_token_that_is_none_is_refused(
    registry: ScriptedRegistry, options: FetchOptions, token: bytes
) -> None:
    async def fault(request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            return web.Response(body=token)
        realm = f'Bearer realm="http://{registry.host}/token"'
        return web.Response(status=401, headers={"WWW-Authenticate": realm})

    registry.fault = fault

    with pytest.raises(ArtifactError, match="sent no token"):
        pull(registry, options)


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b'{"errors":[' * 5000, b'{"errors": [{"code": 1}]}']
)
def test_any_text_of_an_error_is_shown_or_left_out(
    registry: ScriptedRegistry, options: FetchOptions, body: bytes
) -> None:
    async def fault(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=400, body=body)

    registry.fault = fault

    with pytest.raises(MissingError, match="status 400"):
        pull(registry, options)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = {
    "head": HEAD + b"X-Padding: " + b"a" * 8000,
    "body": HEAD + b"Content-Length: 8000\r\n\r\n" + b" " * 8000,
    "chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 8000,
}


@pytest.mark.parametrize("where", DRIPS)
def test_a_registry_that_sends_a_byte_from_time_to_time_is_given_up(
    options: FetchOptions, where: str
) -> None:
    answer = DRIPS[where]
    limits = Limits(connect_s=0.1, silence_s=0.2, tries=0, first_delay_s=0.001)
    with dripping(answer, at_once=len(HEAD)) as host, pytest.raises(MissingError) as caught:
        fetch(f"oci://{host}/plant:1.0", replace(options, limits=limits))

    assert caught.value.code in ("artifact.registry-unreachable", "artifact.registry-slow")
