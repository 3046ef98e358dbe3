"""Authorization: answers the challenges of one registry and keeps the answers, by scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from torvyn.artifact.registry.http.addresses import checked_address, proxy_for, unsafe
from torvyn.artifact.registry.http.challenge import Challenge
from torvyn.artifact.registry.http.credentials import Login, find_login
from torvyn.artifact.registry.http.responses import RETRIED, SMALL_BODY_BYTES, failure_of, read_body
from torvyn.errors import MissingError

if TYPE_CHECKING:
    import aiohttp

    from torvyn.artifact.registry.http.connection import Limits


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
