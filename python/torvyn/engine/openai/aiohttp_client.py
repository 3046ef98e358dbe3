"""aiohttp as the client of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torvyn._io.http_client import ConnectionPool, release_response
from torvyn._io.packages import import_package
from torvyn.engine.openai.client import Direct, UpstreamClient, UpstreamResponse
from torvyn.engine.openai.failures import Upstream

if TYPE_CHECKING:
    import aiohttp


class AiohttpResponse(UpstreamResponse):
    __slots__ = ("_response", "_upstream")

    def __init__(self, response: aiohttp.ClientResponse, upstream: Upstream) -> None:
        super().__init__(response.status, response.content_type)
        self._response = response
        self._upstream = upstream

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._response.headers.items()}

    async def read(self, deadline_s: float) -> bytes:
        import aiohttp

        async with asyncio.timeout_at(deadline_s):
            try:
                return await self._response.content.readany()
            except (aiohttp.ClientError, OSError) as error:
                if "content-encoding" in str(error):
                    raise self._upstream.garbage("bytes that do not unpack") from error
                raise OSError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        self._response.close()

    def release(self) -> None:
        release_response(self._response)


class AiohttpClient(UpstreamClient):
    def __init__(self, upstream: Upstream, connect_timeout_s: float) -> None:
        super().__init__(upstream, connect_timeout_s)
        import_package(
            "aiohttp", "the client `aiohttp` of `openai`", "openai", "engine.package-missing"
        )
        self._pool = ConnectionPool(connect_timeout_s)

    async def post(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        deadline_s: float,
        direct: Direct | None = None,
    ) -> AiohttpResponse:
        async with asyncio.timeout_at(deadline_s):
            return await self._post(path, headers, body)

    async def _post(self, path: str, headers: Mapping[str, str], body: bytes) -> AiohttpResponse:
        import aiohttp

        session = await self._pool.get()
        url = f"{self._upstream.url}/{path}"
        try:
            response = await session.post(url, data=body, headers=headers, allow_redirects=False)
        except aiohttp.ConnectionTimeoutError:
            raise self._not_accepted() from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._upstream.unreachable(error) from error
        return AiohttpResponse(response, self._upstream)

    def close(self) -> None:
        self._pool.close()

    async def aclose(self) -> None:
        await self._pool.aclose()
