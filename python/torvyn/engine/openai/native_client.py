"""The native client: no Python runs while the bytes of a response arrive.

It asks for no compression, which would delay text; a response that is compressed all the same is
unpacked here. Its TLS is stricter than OpenSSL's, for example about certificates that sign
themselves: after a failure of TLS, aiohttp takes over if it is installed.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import partial
from typing import Final

import torvyn
from torvyn._io.per_loop import ResourcePerLoop
from torvyn.engine.openai.client import Direct, Part, UpstreamClient, UpstreamResponse
from torvyn.engine.openai.failures import Upstream, logger
from torvyn.engine.openai.native_http import (
    HttpFailure,
    NativeHttp,
    NativeResponse,
    Target,
    open_native_http,
)
from torvyn.errors import MissingError

_PACKED: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The window bits of zlib for each content encoding."""


class NativeUpstreamResponse(UpstreamResponse):
    __slots__ = ("_response", "_unpack", "_upstream")

    def __init__(self, response: NativeResponse, upstream: Upstream) -> None:
        kind = response.headers.get("content-type", "application/octet-stream")
        super().__init__(response.status, kind.partition(";")[0].strip().lower())
        self._response = response
        self._upstream = upstream
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        self._unpack = None if encoding == "identity" else self._unpacker(encoding)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def direct_idle_s(self) -> float | None:
        return self._response.native.direct_idle_s

    async def read_stream(self, deadline_s: float) -> bytes | list[Part]:
        if self._unpack is None:
            return await self._response.read_stream(deadline_s)
        return await self.read(deadline_s)

    async def read(self, deadline_s: float) -> bytes:
        data = await self._response.read(deadline_s)
        if self._unpack is None:
            return data
        while data:
            try:
                unpacked = self._unpack.decompress(data)
            except zlib.error as error:
                raise self._upstream.garbage("bytes that do not unpack") from error
            if unpacked:
                return unpacked
            data = await self._response.read(deadline_s)
        return b""

    def close(self) -> None:
        self._response.close()

    def release(self) -> None:
        self._response.release()

    def _unpacker(self, encoding: str) -> zlib._Decompress:
        if encoding not in _PACKED:
            self._response.close()
            raise self._upstream.garbage(
                "bytes that do not unpack", f"the content encoding `{encoding}`"
            )
        return zlib.decompressobj(_PACKED[encoding])


class NativeClient(UpstreamClient):
    def __init__(self, upstream: Upstream, connect_timeout_s: float) -> None:
        super().__init__(upstream, connect_timeout_s)
        self._target = Target.of(self._url)
        self._clients: ResourcePerLoop[NativeHttp] = ResourcePerLoop(
            partial(open_native_http, connect_timeout_s, is_tls=self._target.is_tls)
        )
        self._fallback: UpstreamClient | None = None
        self._agent = [("host", self._url.netloc), ("user-agent", f"torvyn/{torvyn.__version__}")]

    async def post(
        self,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        deadline_s: float,
        direct: Direct | None = None,
    ) -> UpstreamResponse:
        if self._fallback is not None:
            return await self._fallback.post(path, headers, body, deadline_s)
        client, target = await self._clients.get(), self._target
        whole_path, pairs = f"{self._url.path}/{path}", [*self._agent, *headers.items()]
        try:
            response = await client.post(target, whole_path, pairs, body, deadline_s, direct)
        except HttpFailure as error:
            if error.kind == "connect-timeout":
                raise self._not_accepted() from None
            if error.kind == "tls" and self._falls_back(error):
                return await self.post(path, headers, body, deadline_s)
            raise self._upstream.unreachable(error) from error
        return NativeUpstreamResponse(response, self._upstream)

    def _falls_back(self, error: HttpFailure) -> bool:
        """Whether another client takes over."""
        from torvyn.engine.openai.aiohttp_client import AiohttpClient

        try:
            self._fallback = AiohttpClient(self._upstream, self._connect_s)
        except MissingError:
            return False
        logger.info("the native client cannot use TLS with the upstream: %s; trying aiohttp", error)
        return True

    def close(self) -> None:
        self._clients.close()
        if self._fallback is not None:
            self._fallback.close()

    async def aclose(self) -> None:
        await self._clients.aclose()
        if self._fallback is not None:
            await self._fallback.aclose()
