"""Where a channel comes from. Its artifacts come from the same place.

    channel.json on a stick      with the OCI layout in the same folder
    https://host/channel.json    the same folder on a web server
    oci://host/name:tag          a repository of a registry, with the artifacts beside the channel

Nothing that a source returns is trusted: it is verified by signatures and digests, not by the
connection, so plain HTTP is allowed.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import math
import socket
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar

from torvyn._artifact.fetch import PARALLEL, all_of
from torvyn._artifact.layout import Layout, open_regular, read_regular
from torvyn._artifact.oci import TITLE, Descriptor, Digest, ImageManifest, invalid, too_large
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import SCHEME, Reference
from torvyn._artifact.registry import Registry
from torvyn._artifact.registry_http import Connection, Limits
from torvyn._artifact.transfer import download, ignore_progress
from torvyn._deploy.channel import PAYLOAD_TYPE
from torvyn._deploy.failures import disk_failed, too_slow, unreachable
from torvyn._deploy.publication import MAX_BYTES
from torvyn._io.background_loop import run_apart
from torvyn.errors import ArtifactError, MissingError

ARTIFACT_TYPE: Final = PAYLOAD_TYPE
Result = TypeVar("Result")


class RegistrySource:
    def __init__(self, source: str, limits: FetchLimits, *, is_insecure: bool = False) -> None:
        """`is_insecure` allows HTTP for a host that is not this machine."""
        self._is_insecure: Final = is_insecure
        self._reference: Final = Reference.parse(source)
        self._limits: Final = Limits(
            silence_s=limits.silence_s, least_bytes_per_s=round(limits.min_bytes_per_s)
        )
        self._total_s: Final = limits.total_s

    def publication(self) -> bytes:
        return self._run(self._publication)

    def manifest(self, digest: Digest, limit_bytes: int) -> bytes:
        async def find(registry: Registry) -> bytes:
            found = await registry.find_manifest(digest, limit_bytes)
            if found is None:
                raise unreachable(str(self._reference), f"it has no artifact {digest}")
            return found[1]

        return self._run(find)

    def fetch(self, blobs: Sequence[Descriptor], layout: Layout, progress: Progress) -> None:
        async def fetch_all(registry: Registry) -> None:
            free = asyncio.Semaphore(PARALLEL)

            async def one(blob: Descriptor) -> None:
                async with free:
                    await download(registry, blob, layout, ignore_progress)
                progress(blob.size)

            await all_of(one(blob) for blob in blobs)

        self._run(fetch_all)

    async def _publication(self, registry: Registry) -> bytes:
        _, data = await registry.manifest(self._reference.target)
        manifest = ImageManifest.parse(data)
        if manifest.artifact_type != ARTIFACT_TYPE or len(manifest.layers) != 1:
            raise invalid(f"`{self._reference}` is not a channel")
        with tempfile.TemporaryDirectory() as folder:
            layout, layer = Layout.create(Path(folder)), manifest.layers[0]
            if layer.size > MAX_BYTES:
                raise invalid(f"the channel has {layer.size} bytes; the limit is {MAX_BYTES}")
            await download(registry, layer, layout)
            return layout.read(layer)

    def _run(self, work: Callable[[Registry], Awaitable[Result]]) -> Result:
        async def connected() -> Result:
            async with Connection(
                self._reference.host, limits=self._limits, is_insecure=self._is_insecure
            ) as connection:
                async with asyncio.timeout(self._total_s):
                    return await work(Registry(connection, self._reference.repository))

        try:
            return run_apart(connected())
        except TimeoutError:
            reason = f"it took longer than {self._total_s:.0f} s"
            raise unreachable(str(self._reference), reason) from None
        except MissingError as error:
            raise unreachable(str(self._reference), error.message) from error


def push_channel(data: bytes, target: Reference, *, is_insecure: bool = False) -> None:
    """Publishes a channel as an artifact with one layer. Its tag moves to the new one."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout.create(Path(folder))
        layer = layout.add(PAYLOAD_TYPE, data, {TITLE: "channel.json"})
        descriptor = layout.add_manifest(ImageManifest(ARTIFACT_TYPE, (layer,)))
        options = PublishOptions(may_replace=True, is_insecure=is_insecure)
        run_apart(publish(layout, descriptor, target, options))


Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How patient a download is."""

    silence_s: float = 30.0
    """How long a server may send nothing."""
    min_bytes_per_s: float = 1024.0
    """On average, after `silence_s`."""
    total_s: float = 3600.0
    """For one file; a later try continues where it stopped."""


class ChannelSource(Protocol):
    def publication(self) -> bytes:
        """At most `MAX_BYTES`."""

    def manifest(self, digest: Digest, limit_bytes: int) -> bytes: ...

    def fetch(self, blobs: Sequence[Descriptor], layout: Layout, progress: Progress) -> None:
        """Adds blobs to a layout. What was cut is continued by the next call."""


class FileSource:
    """A source whose blobs are files, which are copied into `parts/` of the layout first."""

    def fetch(self, blobs: Sequence[Descriptor], layout: Layout, progress: Progress) -> None:
        parts = layout.folder / "parts"
        for blob in blobs:
            part = parts / blob.digest.removeprefix("sha256:")
            try:
                parts.mkdir(exist_ok=True)
                if part.exists() and part.stat().st_size > blob.size:
                    part.unlink()
                self._append(blob, part)
            except OSError as error:
                raise disk_failed(part, error) from error
            self._adopt(layout, part, blob)
            progress(blob.size)

    def _append(self, blob: Descriptor, target: Path) -> None:
        """Appends to a file what it lacks, and not more than the size of the blob. An `OSError` is
        of the file; what the source cannot give is `edge.unreachable`."""
        raise NotImplementedError

    def _adopt(self, layout: Layout, part: Path, blob: Descriptor) -> None:
        try:
            layout.adopt(part, blob)
        except ArtifactError:
            # A complete file with another content never becomes right; a short one is continued.
            if part.stat().st_size >= blob.size:
                part.unlink()
            raise


class FolderSource(FileSource):
    def __init__(self, path: Path) -> None:
        self._path = path

    def publication(self) -> bytes:
        try:
            return read_regular(self._path, MAX_BYTES)
        except MissingError as error:
            raise unreachable(str(self._path), error.message) from None

    def manifest(self, digest: Digest, limit_bytes: int) -> bytes:
        return read_regular(self._blob(digest), limit_bytes)

    def _append(self, blob: Descriptor, target: Path) -> None:
        with open_regular(self._blob(blob.digest)) as file, target.open("ab") as out:
            file.seek(out.tell())
            while (room := blob.size - out.tell()) and (chunk := self._read(file, room)):
                out.write(chunk)

    def _read(self, file: BinaryIO, room: int) -> bytes:
        try:
            return file.read(min(room, 1 << 20))
        except OSError as error:  # the stick was pulled out
            raise unreachable(str(self._path), error) from error

    def _blob(self, digest: Digest) -> Path:
        return self._path.parent / blob_path(digest)


def blob_path(digest: Digest) -> str:
    """Inside an OCI layout."""
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def open_source(
    source: str, limits: FetchLimits | None = None, *, is_insecure: bool = False
) -> ChannelSource:
    """The source that a person named. `is_insecure`: a registry on another machine may have no
    TLS."""
    limits = limits or FetchLimits()
    if source.startswith(SCHEME):
        pass

        return RegistrySource(source, limits, is_insecure=is_insecure)
    if source.startswith(("http://", "https://")):
        pass

        return WebSource(source, limits)
    return FolderSource(Path(source))


_CHUNK: Final = 64 * 1024
_PARTIAL: Final = 206


class WebSource(FileSource):
    def __init__(self, url: str, limits: FetchLimits) -> None:
        self._url = url
        self._limits = limits
        self._opener = urllib.request.build_opener(_SafeRedirects, _Handler, _TlsHandler)

    def publication(self) -> bytes:
        return self._read(self._url, MAX_BYTES)

    def manifest(self, digest: Digest, limit_bytes: int) -> bytes:
        return self._read(self._blob(digest), limit_bytes)

    def _append(self, blob: Descriptor, target: Path) -> None:
        url = self._blob(blob.digest)
        with target.open("ab") as out:
            start = out.tell()
            if start >= blob.size:
                return
            with self._open(url, {"Range": f"bytes={start}-"} if start else {}) as response:
                if start and response.status != _PARTIAL:
                    # The server does not resume: it sends the whole file.
                    out.truncate(0)
                    start = 0
                for chunk in self._chunks(url, response, blob.size - start):
                    out.write(chunk)

    def _read(self, url: str, limit_bytes: int) -> bytes:
        with self._open(url) as response:
            return b"".join(self._chunks(url, response, limit_bytes))

    def _chunks(self, url: str, response: Any, limit_bytes: int) -> Iterator[bytes]:
        """The body, within the limits on its size and its time."""
        began_s, count = time.monotonic(), 0
        while chunk := self._read_some(url, response):
            count += len(chunk)
            if count > limit_bytes:
                raise too_large(f"{url} has more than {limit_bytes} bytes")
            self._check_rate(url, count, time.monotonic() - began_s)
            yield chunk
        if response.length:
            raise unreachable(url, "the connection was cut")

    def _read_some(self, url: str, response: Any) -> bytes:
        try:
            chunk: bytes = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(url, error) from None
        return chunk

    def _check_rate(self, url: str, count: int, elapsed_s: float) -> None:
        limits = self._limits
        is_slow = elapsed_s > limits.silence_s and count < elapsed_s * limits.min_bytes_per_s
        if is_slow or elapsed_s > limits.total_s:
            raise too_slow(url, count, elapsed_s)

    @contextmanager
    def _open(self, url: str, headers: dict[str, str] | None = None) -> Iterator[Any]:
        try:
            request = urllib.request.Request(url, headers=headers or {})
            response = self._opener.open(request, timeout=self._limits.silence_s)
        except urllib.error.HTTPError as error:
            error.close()
            raise unreachable(url, f"HTTP {error.code}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A ValueError is an address that is none, ours or that of a redirect.
            raise unreachable(url, error) from None
        with response:
            yield response

    def _blob(self, digest: Digest) -> str:
        return urllib.parse.urljoin(self._url, blob_path(digest))


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects lead from HTTPS to HTTPS only, and never to files."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise urllib.error.URLError(f"it redirects to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _TimedReader(io.RawIOBase):
    """The bytes of a socket. From `restart` on, all reads together take at most its timeout; that
    of a socket begins anew with each byte."""

    def __init__(self, source: socket.socket, raw: io.RawIOBase) -> None:
        self._socket = source
        self._raw = raw
        self._limit_s = source.gettimeout()
        self.restart()

    def restart(self) -> None:
        self._until_s = time.monotonic() + (self._limit_s or math.inf)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        if left_s < math.inf:
            self._socket.settimeout(left_s)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """Its head, and then each part of its body, takes at most the timeout in total."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        super().__init__(sock, *arguments, **options)
        self._timed = _TimedReader(sock, self.fp.detach())
        self.fp = io.BufferedReader(self._timed)

    def read1(self, n: int = -1) -> bytes:
        self._timed.restart()
        return super().read1(n)


class _Connection(http.client.HTTPConnection):
    response_class = _Response


class _TlsConnection(http.client.HTTPSConnection):
    response_class = _Response


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TlsConnection, req)
