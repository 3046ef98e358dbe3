"""Downloads: a blob of a registry to a layout, resumed where it was cut.

The bytes so far are kept in `partial/` of the layout, also when the process ends, and a blob enters
the layout only after its size and digest were checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from torvyn._io.files import FileLock, Locked
from torvyn.artifact.failures import not_found, too_large, unwritable
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Descriptor
from torvyn.artifact.registry.client import Registry
from torvyn.artifact.registry.http.connection import Limits
from torvyn.artifact.registry.http.responses import Retry, failure_of, timely_chunks
from torvyn.errors import ArtifactError, MissingError

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
