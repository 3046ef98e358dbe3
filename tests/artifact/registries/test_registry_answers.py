"""A registry's errors: what may pass is tried again, and the rest is explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from aiohttp import web
from registry_artifacts import add_artifact
from scripted_registry import ScriptedRegistry, scripted

from torvyn.artifact.layout import Layout
from torvyn.artifact.registry.fetch import FetchOptions, fetch
from torvyn.artifact.registry.http.challenge import Challenge
from torvyn.artifact.registry.http.connection import Limits
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
