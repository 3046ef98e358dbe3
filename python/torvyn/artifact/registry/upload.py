"""Uploads: a blob of a layout to a registry, in one request or in chunks that can be resumed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import quote

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Descriptor
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.download import Progress, ignore_progress
from torvyn.artifact.registry.http.connection import Connection
from torvyn.artifact.registry.http.responses import Retry, failure_of
from torvyn.errors import MissingError, TorvynError

if TYPE_CHECKING:
    import aiohttp

CHUNK_BYTES: Final = 16 * 1024 * 1024
"""A larger blob is sent in chunks of this size."""
_PIECE_BYTES: Final = 256 * 1024
_RANGE: Final = re.compile(r"(?:bytes=)?0-(\d{1,19})", re.ASCII)
_OCTETS: Final = "application/octet-stream"


async def upload(
    registry: Registry,
    blob: Descriptor,
    layout: Layout,
    *,
    mount_from: str | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    progress: Progress = ignore_progress,
) -> bool:
    """Stores a blob of the layout. False if it was there, or was mounted from another repository of
    the registry, and nothing was sent."""
    if await _exists(registry, blob):
        progress(blob.size)
        return False
    with layout.open(blob) as file:
        job = _Upload(registry, blob, file, chunk_bytes, progress)
        return await registry.connection.retry(lambda: job.attempt(mount_from))


async def _exists(registry: Registry, blob: Descriptor) -> bool:
    address = registry.path("blobs", blob.digest)
    status, headers, _ = await registry.connection.fetch("HEAD", address, registry.push_scope, 0)
    if status not in (200, 404):
        raise registry.failed(status, headers, b"", f"the blob {blob.digest}")
    return status == 200


class _UploadLost(Retry):
    """The registry no longer knows the upload, or has another part of it than we think: it begins
    anew."""


class _Upload:
    def __init__(
        self,
        registry: Registry,
        blob: Descriptor,
        file: BinaryIO,
        chunk_bytes: int,
        progress: Progress,
    ) -> None:
        self._registry = registry
        self._connection: Connection = registry.connection
        self._blob = blob
        self._file = file
        self._chunk_bytes = chunk_bytes
        self._progress = progress
        self._reported = 0
        self._what = f"the upload of {blob.digest}"

    async def attempt(self, mount_from: str | None) -> bool:
        """One whole upload; False if the blob could be mounted instead."""
        address = await self._begin(mount_from)
        if address is None:
            self._report(self._blob.size)
            return False
        begin = 0
        if self._blob.size > self._chunk_bytes:
            address, begin = await self._send_chunks(address)
        await self._finish(address, begin)
        self._report(self._blob.size)
        return True

    async def _begin(self, mount_from: str | None) -> str | None:
        query = ""
        if mount_from is not None:
            query = f"?mount={quote(self._blob.digest)}&from={quote(mount_from, safe='')}"
        address = self._registry.path("blobs", f"uploads/{query}")
        async with self._request("POST", address, 0, 0) as response:
            if response.status == 201 and mount_from is not None:
                return None
            if response.status != 202:
                raise await failure_of(
                    response, self._connection.limits, self._connection.host, self._what
                )
            return self._connection.location(response)

    async def _send_chunks(self, address: str) -> tuple[str, int]:
        """Sends all chunks; returns the address for the end of the upload. After a failure, asks
        the registry how much it has."""
        begin, retries = 0, self._connection.limits.retries()
        while begin < self._blob.size:
            end = min(begin + self._chunk_bytes, self._blob.size)
            try:
                address = await self._send_chunk(address, begin, end)
                begin = end
                retries.reset()
            except _UploadLost:
                raise
            except Retry as failure:
                await self._connection.wait(retries, failure)
                address, begin = await self._state(address)
            self._report(begin)
        return address, begin

    async def _send_chunk(self, address: str, begin: int, end: int) -> str:
        async with self._request("PATCH", address, begin, end) as response:
            if response.status not in (202, 204):
                raise await self._failure(response)
            return self._connection.location(response)

    async def _state(self, address: str) -> tuple[str, int]:
        """Where an interrupted upload goes on."""
        async with self._connection.request("GET", address, self._registry.push_scope) as response:
            match = _RANGE.fullmatch(response.headers.get("Range", ""))
            if response.status != 204 or match is None:
                message = f"{self._what} was interrupted, and {self._connection.host} lost it"
                raise _UploadLost(MissingError("artifact.registry-failed", message))
            received = int(match[1]) + 1
            # Both an empty upload and one of a single byte have the range 0-0.
            begin = received if 1 < received <= self._blob.size else 0
            return self._connection.location(response), begin

    async def _finish(self, address: str, begin: int) -> None:
        sign = "&" if "?" in address else "?"
        closing = f"{address}{sign}digest={quote(self._blob.digest)}"
        async with self._request("PUT", closing, begin, self._blob.size) as response:
            if response.status not in (201, 204):
                raise await self._failure(response)

    async def _failure(self, response: aiohttp.ClientResponse) -> TorvynError | Retry:
        failure = await failure_of(
            response, self._connection.limits, self._connection.host, self._what
        )
        if response.status in (404, 416) and isinstance(failure, TorvynError):
            return _UploadLost(failure)
        return failure

    def _request(
        self, method: str, address: str, begin: int, end: int
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {"Content-Length": str(end - begin)}
        if end > begin:
            headers["Content-Type"] = _OCTETS
        if method == "PATCH":
            headers["Content-Range"] = f"{begin}-{end - 1}"
        body = (lambda: self._pieces(begin, end)) if end > begin else None
        scope = self._registry.push_scope
        return self._connection.request(
            method, address, scope, headers=headers, body=body, body_bytes=end - begin
        )

    async def _pieces(self, begin: int, end: int) -> AsyncIterator[bytes]:
        self._file.seek(begin)
        while begin < end:
            piece = self._file.read(min(_PIECE_BYTES, end - begin))
            if not piece:
                raise EOFError
            begin += len(piece)
            yield piece
            self._report(begin)

    def _report(self, position: int) -> None:
        if position != self._reported:
            self._progress(position - self._reported)
            self._reported = position
