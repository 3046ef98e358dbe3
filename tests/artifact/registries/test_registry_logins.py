"""Logins: found where docker keeps them, and sent to the registry that they belong to only."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from registry_artifacts import add_artifact
from registry_servers import PASSWORD, USER, require, running
from scripted_registry import ScriptedRegistry, scripted

from torvyn._artifact.fetch import FetchOptions, fetch
from torvyn._artifact.layout import Layout
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._artifact.registry_http import MAX_REDIRECTS
from torvyn._artifact.registry_login import Login, find_login
from torvyn._io.background_loop import run_apart
from torvyn.errors import ArtifactError, MissingError

HOST = "registry.example.com"
BASIC = Login(USER, PASSWORD).basic


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of docker's config.json, and of credential helpers."""
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def configure(folder: Path, **config: Any) -> None:
    (folder / "config.json").write_text(json.dumps(config))


def add_login(folder: Path, host: str, text: str = f"{USER}:{PASSWORD}") -> None:
    configure(folder, auths={host: {"auth": base64.b64encode(text.encode()).decode()}})


def add_helper(folder: Path, name: str, script: str) -> None:
    path = folder / f"docker-credential-{name}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def login(host: str = HOST) -> Login | None:
    return run_apart(find_login(host))


# Where logins are found


def test_a_login_of_docker_is_found(docker: Path) -> None:
    add_login(docker, HOST)

    assert login() == Login(USER, PASSWORD)
    assert login("other.example.com") is None
    assert login(f"{HOST}:5000") is None


def test_without_any_file_there_is_no_login(docker: Path) -> None:
    assert login() is None


def test_a_helper_of_the_host_is_asked(docker: Path) -> None:
    script = """read host; echo "{\\"Username\\": \\"$host\\", \\"Secret\\": \\"from $1\\"}" """
    add_helper(docker, "vault", script)
    configure(docker, credHelpers={HOST: "vault"})

    assert login() == Login(HOST, "from get")


def test_the_store_of_all_hosts_is_asked_last(docker: Path) -> None:
    add_helper(docker, "store", 'echo "credentials not found in native keychain"; exit 1')
    configure(docker, credsStore="store", auths={HOST: {"username": "a", "password": "b"}})

    assert login() == Login("a", "b")
    assert login("other.example.com") is None


def test_a_helper_may_answer_with_a_refresh_token(docker: Path) -> None:
    add_helper(docker, "cloud", 'echo "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"r\\"}"')
    configure(docker, credsStore="cloud")

    assert login() == Login(refresh_token="r")


@pytest.mark.parametrize(
    ("config", "script"),
    [
        ({"credsStore": "none"}, "exit 0"),
        ({"credsStore": "bad"}, "exit 3"),
        ({"credsStore": "bad"}, "echo nonsense"),
        ({"credsStore": "../bad"}, "exit 0"),
        ({"auths": {HOST: {"auth": "!"}}}, "exit 0"),
        ({"auths": [HOST]}, "exit 0"),
    ],
)
def test_logins_that_cannot_be_used_are_an_error(
    docker: Path, config: dict[str, Any], script: str
) -> None:
    add_helper(docker, "bad", script)
    configure(docker, **config)

    with pytest.raises(MissingError) as caught:
        login()

    assert caught.value.code == "artifact.credentials-unusable"
    assert str(docker / "config.json") in caught.value.message


def test_the_text_of_a_login_does_not_show_its_secrets() -> None:
    assert PASSWORD not in repr(Login(USER, PASSWORD, PASSWORD))


# Where they are sent


@pytest.fixture
def registry(layout: Layout) -> Iterator[ScriptedRegistry]:
    add_artifact(layout)
    with scripted(layout) as registry:
        yield registry


def protect(registry: ScriptedRegistry, wanted: str, challenge: str) -> None:
    async def fault(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/token" or request.headers.get("Authorization") == wanted:
            return None
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    registry.fault = fault


def pull(registry: ScriptedRegistry, options: FetchOptions) -> str:
    return fetch(f"oci://{registry.host}/plant:1.0", options).descriptor.digest


def test_a_registry_with_passwords_accepts_the_login(
    docker: Path, tmp_path: Path, layout: Layout, options: FetchOptions
) -> None:
    require("docker-registry")
    artifact = add_artifact(layout)
    with running("docker-registry", tmp_path, with_login=True) as server:
        target = f"oci://{server.host}/plant:1.0"
        add_login(docker, server.host)
        run_apart(publish(layout, artifact, Reference.parse(target), PublishOptions()))
        assert fetch(target, options).descriptor.digest == artifact.digest

        add_login(docker, server.host, f"{USER}:wrong")
        with pytest.raises(MissingError, match="denied access"):
            fetch(target, replace(options, cache=tmp_path / "other"))


def tokens(registry: ScriptedRegistry, realm: ScriptedRegistry, *, valid_for: int = 1000) -> None:
    """The registry accepts tokens of the realm, each for so many requests."""
    uses: dict[str, int] = {}

    async def token(request: web.Request) -> web.StreamResponse | None:
        if request.path != "/token":
            return None
        value = f"t{len(uses)}"
        uses[f"Bearer {value}"] = valid_for
        return web.json_response({"token": value})

    async def guard(request: web.Request) -> web.StreamResponse | None:
        header = request.headers.get("Authorization", "")
        uses[header] = uses.get(header, 0) - 1
        if request.path == "/token" or uses[header] >= 0:
            return await token(request)
        challenge = f'Bearer realm="http://{realm.host}/token",service="plant",scope="evil:*:*"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    registry.fault, realm.fault = guard, (guard if realm is registry else token)


def test_a_token_is_fetched_for_our_scope(
    docker: Path, registry: ScriptedRegistry, options: FetchOptions
) -> None:
    add_login(docker, registry.host)
    with scripted() as realm:
        tokens(registry, realm)
        pull(registry, options)

    [request] = realm.asked("/token")
    assert request.query["scope"] == "repository:plant:pull"
    assert request.query["service"] == "plant"
    assert request.headers["Authorization"] == BASIC
    sent = {each.headers.get("Authorization") for each in registry.requests}
    assert BASIC not in sent


def test_an_expired_token_is_replaced(
    docker: Path, registry: ScriptedRegistry, options: FetchOptions
) -> None:
    tokens(registry, registry, valid_for=2)

    pull(registry, options)

    assert len(registry.asked("/token")) > 1


def test_a_refresh_token_is_exchanged(
    docker: Path, registry: ScriptedRegistry, options: FetchOptions
) -> None:
    configure(docker, auths={registry.host: {"identitytoken": "refresh"}})
    tokens(registry, registry)

    pull(registry, options)

    assert registry.asked("/token")[0].method == "POST"


def test_no_login_follows_a_redirect_to_another_host(
    docker: Path, registry: ScriptedRegistry, options: FetchOptions
) -> None:
    add_login(docker, registry.host)
    protect(registry, BASIC, 'Basic realm="plant"')
    with scripted(registry.layout) as storage:
        inner = registry.fault

        async def redirect(request: web.Request) -> web.StreamResponse | None:
            if "/blobs/" not in request.path:
                return await inner(request)
            return web.Response(
                status=307, headers={"Location": f"http://{storage.host}{request.path}"}
            )

        registry.fault = redirect
        pull(registry, options)

    assert storage.asked("/blobs/")
    assert all("Authorization" not in request.headers for request in storage.requests)
    assert registry.asked("/blobs/")[0].headers["Authorization"] == BASIC


def test_another_host_that_asks_for_a_login_gets_none(
    docker: Path, registry: ScriptedRegistry, options: FetchOptions
) -> None:
    add_login(docker, registry.host)
    with scripted() as thief:
        protect(thief, "any", 'Basic realm="plant"')

        async def redirect(request: web.Request) -> web.StreamResponse | None:
            location = f"http://{thief.host}{request.path}"
            return web.Response(status=302, headers={"Location": location})

        registry.fault = redirect
        with pytest.raises(MissingError, match="denied access"):
            pull(registry, options)

    assert thief.requests
    assert all("Authorization" not in request.headers for request in thief.requests)


@pytest.mark.parametrize(
    "location",
    [
        "http://registry.example.com/blob",
        "ftp://registry.example.com/blob",
        "file:///etc/passwd",
        "https://user:password@registry.example.com/",
        "https://[bad/",
    ],
)
def test_a_redirect_to_an_unsafe_address_is_refused(
    registry: ScriptedRegistry, options: FetchOptions, location: str
) -> None:
    async def redirect(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": location})

    registry.fault = redirect

    with pytest.raises(ArtifactError) as caught:
        pull(registry, options)
    assert caught.value.code == "artifact.registry-unsafe"


def test_endless_redirects_are_refused(registry: ScriptedRegistry, options: FetchOptions) -> None:
    async def redirect(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": request.path})

    registry.fault = redirect

    with pytest.raises(ArtifactError, match="redirected more than 5 times"):
        pull(registry, options)
    assert len(registry.requests) == MAX_REDIRECTS + 1
