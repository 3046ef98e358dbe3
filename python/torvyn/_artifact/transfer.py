"""Blobs of a registry, down and up, resumed where they were cut.

The bytes of a download so far are kept in `partial/` of the layout, also when the process ends, and
a blob enters the layout only after its size and digest were checked. An upload is one request, or
chunks that can be resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import quote

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import Descriptor, not_found, too_large, unwritable
from torvyn._artifact.registry import Registry
from torvyn._artifact.registry_http import Connection, Limits
from torvyn._artifact.registry_responses import Retry, failure_of, timely_chunks
from torvyn._io.files import FileLock, Locked
from torvyn.errors import ArtifactError, MissingError, TorvynError

if TYPE_CHECKING:
    import aiohttp

Progress = Callable[[int], None]
"""Called with the number of bytes that have arrived or left since the last call."""

_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,19})-\d{1,19}/(?:\d{1,19}|\*)", re.ASCII)


def ignore_progress(_bytes: int) -> None:
    pass


async def download(
    registry: Registry, blob: Descriptor, layout: Layout, progress: Progress = ignore_progress
) -> None:
    """Adds a blob to a layout, unless it is there."""
    if await asyncio.to_thread(_is_intact, layout, blob):
        progress(blob.size)
        return
    with _partial_file(layout, blob) as (file, path):
        resumed_at = file.seek(0, os.SEEK_END)
        if resumed_at > blob.size:
            resumed_at = file.truncate(0)
        progress(resumed_at)
        await _Download(registry, blob, file, progress).run()
        try:
            await asyncio.to_thread(layout.adopt, path, blob)
        except ArtifactError:
            file.truncate(0)
            if not resumed_at:
                raise
            # The bytes of the earlier download may be the wrong ones.
            progress(-blob.size)
            await _Download(registry, blob, file, progress).run()
            await asyncio.to_thread(layout.adopt, path, blob)


def _is_intact(layout: Layout, blob: Descriptor) -> bool:
    """Whether the blob is there. A damaged one, as after a power failure, is fetched again."""
    if not layout.has(blob):
        return False
    try:
        layout.verify(blob)
    except ArtifactError:
        return False
    return True


class _Download:
    def __init__(
        self, registry: Registry, blob: Descriptor, file: BinaryIO, progress: Progress
    ) -> None:
        self._registry = registry
        self._blob = blob
        self._file = file
        self._progress = progress
        self._what = f"the blob {blob.digest} of {registry.name}"

    async def run(self) -> None:
        """Fetches until the file has the blob's size. A cut that brought bytes is not counted
        against the tries: the next one has less to fetch. Cuts after a few bytes each, below the
        least rate, are counted: they could go on for ever."""
        connection = self._registry.connection
        retries = connection.limits.retries()
        started_s, began = time.monotonic(), self._file.seek(0, os.SEEK_END)
        while (position := self._file.seek(0, os.SEEK_END)) < self._blob.size:
            try:
                await self._attempt(position)
            except Retry as failure:
                end, lasted_s = self._file.seek(0, os.SEEK_END), time.monotonic() - started_s
                if end > position and connection.limits.is_timely(end - began, lasted_s):
                    retries.reset()
                await connection.wait(retries, failure)
        self._file.flush()

    async def _attempt(self, position: int) -> None:
        connection = self._registry.connection
        address = self._registry.path("blobs", self._blob.digest)
        headers = {"Range": f"bytes={position}-"} if position else {}
        async with connection.request(
            "GET", address, self._registry.pull_scope, headers=headers
        ) as response:
            if response.status == 404:
                raise not_found(f"blob {self._blob.digest}", self._registry.name)
            if response.status not in (200, 206, 416):
                raise await failure_of(response, connection.limits, connection.host, self._what)
            if response.status != 206 and position:
                self._restart(position)
            elif response.status == 206 and _first_byte(response) != position:
                self._restart(position)
                raise self._cut("the registry sent another part of it")
            if response.status == 416:
                raise self._cut("the registry sent none of it")
            await self._receive(response, connection.limits)

    def _restart(self, position: int) -> None:
        """Forgets the bytes so far: what follows does not continue them."""
        self._progress(-position)
        self._file.seek(self._file.truncate(0))

    async def _receive(self, response: aiohttp.ClientResponse, limits: Limits) -> None:
        left, received = self._blob.size - self._file.tell(), 0
        async for chunk in timely_chunks(response, limits, self._what):
            received += len(chunk)
            if received > left:
                response.close()
                raise too_large(f"{self._what} has more than its {self._blob.size} bytes")
            self._write(chunk)
        self._file.flush()
        if received < left:
            raise self._cut(f"it ended after {received} of {left} bytes")

    def _cut(self, reason: str) -> Retry:
        return Retry(MissingError("artifact.registry-failed", f"{self._what}: {reason}"))

    def _write(self, chunk: bytes) -> None:
        try:
            self._file.write(chunk)
        except OSError as error:
            raise unwritable(Path(self._file.name), error) from error
        self._progress(len(chunk))


def _first_byte(response: aiohttp.ClientResponse) -> int | None:
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    return None if match is None else int(match[1])


@contextlib.contextmanager
def _partial_file(layout: Layout, blob: Descriptor) -> Iterator[tuple[BinaryIO, Path]]:
    """The file with the bytes so far. Another process that downloads the same blob has it locked;
    then it is a temporary one."""
    folder = layout.folder / "partial"
    path = folder / blob.digest.removeprefix("sha256:")
    try:
        folder.mkdir(exist_ok=True)
        lock = FileLock(path, create=0o644)
        try:
            lock.acquire()
        except Locked:
            descriptor, name = tempfile.mkstemp(dir=folder, prefix="download-")
            file, path = os.fdopen(descriptor, "a+b", buffering=0), Path(name)
        else:
            file = path.open("a+b", buffering=0)
    except OSError as error:
        raise unwritable(path, error) from error
    with lock, file:
        try:
            yield file, path
        finally:
            if path.name.startswith("download-"):
                path.unlink(missing_ok=True)


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
