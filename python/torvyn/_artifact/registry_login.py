"""Authorization: answers the challenges of one registry and keeps the answers, by scope.

A challenge is what a registry demands with status 401, and where the token for it is. Logins come
from where docker, podman and oras keep them: `config.json` in `$DOCKER_CONFIG` or `~/.docker`, then
podman's `auth.json`, with `credHelpers` for a host, `auths`, and `credsStore` for all hosts. A
helper is the program `docker-credential-NAME`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from torvyn._artifact.registry_responses import (
    RETRIED,
    SMALL_BODY_BYTES,
    checked_address,
    failure_of,
    proxy_for,
    read_body,
    unsafe,
)
from torvyn.errors import MissingError, os_reason

if TYPE_CHECKING:
    import aiohttp

    from torvyn._artifact.registry_http import Limits


class Authorization:
    def __init__(self, host: str, limits: Limits, environ: Mapping[str, str] | None = None) -> None:
        self._host = host
        self._limits = limits
        self._environ = environ
        self._values: dict[str, str] = {}
        self._lock = asyncio.Lock()

    def header(self, scope: str) -> str | None:
        """The value of `Authorization` for the registry's own origin."""
        return self._values.get(scope)

    async def answer(
        self,
        header: str,
        scope: str,
        used: str | None,
        registry: str,
        http: aiohttp.ClientSession,
    ) -> bool:
        """Answers the header `WWW-Authenticate` of the registry (the URL of its origin) to a
        request that used this value. False if there is no better one: the status 401 stands."""
        async with self._lock:
            if self._values.get(scope) != used:
                return True  # another request has answered it in the meantime
            challenge = Challenge.parse(header)
            login = await find_login(self._host, self._environ)
            if challenge is None or (challenge.scheme == "basic" and login is None):
                return False
            if challenge.scheme == "basic" and login is not None:
                self._values[scope] = login.basic
            else:
                token = await self._token(challenge, login, scope, registry, http)
                self._values[scope] = f"Bearer {token}"
            return self._values[scope] != used

    async def _token(
        self,
        challenge: Challenge,
        login: Login | None,
        scope: str,
        registry: str,
        http: aiohttp.ClientSession,
    ) -> str:
        """A token for the scope. The token service may be on another host, which the registry
        names; like docker, we trust it with the login of the registry, but only over TLS, and not
        with where it redirects to."""
        checked_address(challenge.realm, registry)
        method, url, request = _token_request(challenge, login, scope)
        async with (
            asyncio.timeout(self._limits.head_s),
            http.request(
                method, url, allow_redirects=False, proxy=proxy_for(url), **request
            ) as response,
        ):
            if response.status in RETRIED:
                raise await failure_of(
                    response, self._limits, self._host, "the request for a token"
                )
            if response.status != 200:
                message = f"{urlsplit(url).hostname} gave no token for {self._host}"
                hint = f"log in with `docker login {self._host}`"
                raise MissingError("artifact.registry-denied", message, hint=hint)
            body = await read_body(response, self._limits, SMALL_BODY_BYTES, "the token")
        token = _token_in(body)
        if token is None:
            raise unsafe(registry, "its token service sent no token")
        return token


def _token_request(
    challenge: Challenge, login: Login | None, scope: str
) -> tuple[str, str, dict[str, Any]]:
    if login is not None and login.refresh_token:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh_token,
            "service": challenge.service,
            "scope": scope,
            "client_id": "torvyn",
        }
        return "POST", challenge.realm, {"data": form}
    headers = {"Authorization": login.basic} if login else {}
    return "GET", challenge.token_url(scope), {"headers": headers}


def _token_in(body: bytes) -> str | None:
    try:
        record = json.loads(body)
        token = record.get("token") or record.get("access_token")
    except (ValueError, AttributeError, RecursionError):
        return None
    is_usable = isinstance(token, str) and token.isascii() and token.isprintable()
    return token if is_usable else None


_SCHEME: Final = re.compile(r"\s*([A-Za-z]+)(?:\s+|$)")
_PARAMETER: Final = re.compile(
    r'\s*([A-Za-z_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|$)'
)


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a registry wants to be asked: `basic` or `bearer`."""

    scheme: str
    realm: str = ""
    service: str = ""
    scope: str = ""

    @classmethod
    def parse(cls, header: str) -> Challenge | None:
        """The challenge of a header; None if it is neither Basic nor Bearer."""
        match = _SCHEME.match(header[:8192])
        if match is None or match[1].lower() not in ("basic", "bearer"):
            return None
        found = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain
            for name, quoted, plain in _PARAMETER.findall(header[match.end() : 8192])
        }
        named = {key: found.get(key, "") for key in ("realm", "service", "scope")}
        return cls(match[1].lower(), **named)

    def token_url(self, scope: str) -> str:
        """Where to get a token for our scope. The scope that the registry names is not used: what
        we ask for is decided here."""
        parts = urlsplit(self.realm)
        wanted = {"service": self.service, "scope": scope}
        query = urlencode({key: value for key, value in wanted.items() if value})
        joined = "&".join(filter(None, (parts.query, query)))
        return urlunsplit((parts.scheme, parts.netloc, parts.path, joined, ""))


def scope_of(repository: str, *actions: str) -> str:
    return f"repository:{repository}:{','.join(actions)}"


HELPER_S: Final = 30.0
LIMIT_BYTES: Final = 4 * 1024 * 1024
_DOCKER_HUB: Final = "https://index.docker.io/v1/"
_TOKEN_USER: Final = "<token>"
"""What helpers answer as the user name if the secret is a refresh token."""
_HELPER_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Login:
    username: str = ""
    password: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """The value of the header `Authorization`."""
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"


async def find_login(host: str, environ: Mapping[str, str] | None = None) -> Login | None:
    """The login for a host (with its port), or None. Raises `artifact.credentials-unusable` if a
    file or a helper that should have it does not work."""
    environ = os.environ if environ is None else environ
    for path in _files(environ):
        if not path.exists():
            continue
        record = _read(path)
        names = _names(host)
        helpers = record.get("credHelpers") or {}
        helper = next((helpers[name] for name in names if name in helpers), None)
        if helper is not None:
            return await _ask_helper(str(helper), host, path, environ)
        auths = record.get("auths") or {}
        entry = next((auths[name] for name in names if auths.get(name)), None)
        if entry:
            return _login(entry, path, host)
        if store := record.get("credsStore"):
            login = await _ask_helper(str(store), host, path, environ)
            if login is not None:
                return login
    return None


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    if folder := environ.get("DOCKER_CONFIG"):
        yield Path(folder, "config.json")
        return
    if home := environ.get("HOME"):
        yield Path(home, ".docker", "config.json")
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime, "containers", "auth.json")


def _names(host: str) -> tuple[str, ...]:
    """How files name a host. They never match a part of it."""
    names = (host, f"https://{host}", f"https://{host}/", f"http://{host}")
    return (*names, _DOCKER_HUB) if host in ("docker.io", "registry-1.docker.io") else names


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(LIMIT_BYTES))
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {os_reason(error)}") from None
    except (ValueError, RecursionError):
        raise _unusable(path, "it is not JSON") from None
    tables = ("auths", "credHelpers")
    if not isinstance(record, dict) or not all(
        isinstance(record.get(table) or {}, dict) for table in tables
    ):
        raise _unusable(path, "it does not have the form of docker's config.json")
    return record


def _login(entry: object, path: Path, host: str) -> Login | None:
    if not isinstance(entry, dict):
        raise _unusable(path, f"the login for {host} is not a table")
    token = entry.get("identitytoken")
    if isinstance(token, str) and token:
        return _sendable(Login(refresh_token=token), path)
    username, password = entry.get("username"), entry.get("password")
    if isinstance(username, str) and isinstance(password, str):
        return _sendable(Login(username, password), path)
    try:
        text = base64.b64decode(entry.get("auth") or "", validate=True).decode()
    except (ValueError, TypeError):
        raise _unusable(path, f"the login for {host} is not base64") from None
    username, colon, password = text.partition(":")
    return Login(username, password.rstrip("\0")) if colon else None


async def _ask_helper(name: str, host: str, path: Path, environ: Mapping[str, str]) -> Login | None:
    """The helper's answer; None if it has no login for the host."""
    if not _HELPER_NAME.fullmatch(name):
        raise _unusable(path, f"`{name}` is not the name of a credential helper")
    program = f"docker-credential-{name}"
    server = _DOCKER_HUB if host in ("docker.io", "registry-1.docker.io") else host
    status, output = await _run(program, server, path, environ)
    if status != 0:
        # The protocol has no code for this, only these words.
        if "credentials not found" in output:
            return None
        raise _unusable(path, f"{program} failed: {output.strip()[:200] or f'status {status}'}")
    try:
        answer = json.loads(output)
        username, secret = str(answer["Username"]), str(answer["Secret"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _unusable(path, f"{program} did not answer with a login") from None
    if username == _TOKEN_USER:
        return _sendable(Login(refresh_token=secret), path)
    return _sendable(Login(username, secret), path)


def _sendable(login: Login, path: Path) -> Login:
    """The login, if it is text: half a pair of surrogates is none."""
    try:
        f"{login.username}{login.password}{login.refresh_token}".encode()
    except UnicodeEncodeError:
        raise _unusable(path, "a login in it is not UTF-8") from None
    return login


async def _run(
    program: str, server: str, path: Path, environ: Mapping[str, str]
) -> tuple[int, str]:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(environ),
        )
    except OSError as error:
        raise _unusable(path, f"{program} cannot be started: {os_reason(error)}") from None
    try:
        async with asyncio.timeout(HELPER_S):
            output, _ = await process.communicate(server.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise _unusable(path, f"{program} did not answer within {HELPER_S:g} s") from None
    return process.returncode or 0, output.decode(errors="replace")


def _unusable(path: Path, problem: str) -> MissingError:
    message = f"the credentials in {path} cannot be used: {problem}"
    hint = "log in again with `docker login`, `podman login` or `regctl registry login`"
    return MissingError("artifact.credentials-unusable", message, hint=hint)
