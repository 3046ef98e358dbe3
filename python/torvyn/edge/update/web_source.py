"""A web server with the files of a channel: the publication, and an OCI layout beside it.

Plain HTTP is allowed: what is fetched is verified by signatures and digests, not by the connection.
"""

from __future__ import annotations

import http.client
import io
import math
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from torvyn.artifact.failures import too_large
from torvyn.artifact.model import Descriptor, Digest
from torvyn.edge.channel.publication import MAX_BYTES
from torvyn.edge.failures import too_slow, unreachable
from torvyn.edge.update.source import FetchLimits, FileSource, blob_path

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
