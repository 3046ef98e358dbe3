"""Every `artifact.*` code of registries."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

from torvyn._artifact.cache import Cache
from torvyn._artifact.fetch import Fetched, FetchOptions, fetch
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, Descriptor, ImageManifest, digest_of
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._artifact.registry import Registry
from torvyn._artifact.registry_http import Connection, Limits
from torvyn._artifact.registry_login import find_login
from torvyn._artifact.transfer import download
from torvyn._artifact.trust import Rule, TrustPolicy
from torvyn._io.background_loop import run_apart
from torvyn.errors import TorvynError

ALLOW = TrustPolicy((Rule("", "allow"),))
QUICK = Limits(connect_s=5, silence_s=0.05, least_bytes_per_s=10**9, tries=0)


@contextlib.contextmanager
def answering(
    status: int, *headers: tuple[str, str], body: bytes = b"", address: str = "127.0.0.1"
) -> Iterator[str]:
    """A registry that gives every request the same answer, byte by byte."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for header in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(*header)
            self.end_headers()
            with contextlib.suppress(OSError):
                for byte in body if self.command == "GET" else b"":
                    self.wfile.write(bytes([byte]))

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def pull(folder: Path, host: str, **options: bool) -> Fetched:
    chosen = FetchOptions(ALLOW, folder / "cache", limits=QUICK, **options)
    return fetch(f"oci://{host}/plant:1.0", chosen)


def pull_from(folder: Path, status: int, *headers: tuple[str, str]) -> None:
    with answering(status, *headers) as host:
        pull(folder, host)


def slow(folder: Path) -> None:
    body = b"x" * 10_000_000
    blob = Descriptor("text/plain", digest_of(body), len(body))

    async def run(host: str) -> None:
        async with Connection(host, limits=QUICK) as connection:
            await download(Registry(connection, "plant"), blob, Layout.create(folder / "cache"))

    with answering(200, body=body) as host:
        run_apart(run(host))


def stale(folder: Path) -> None:
    cache = Cache(folder / "cache")
    artifact = cache.layout.add_manifest(ImageManifest(PROJECT, ()))
    cache.remember(Reference.parse("oci://host/plant:1.0"), artifact.digest)
    raise TorvynError.of(pull(folder, "host", is_offline=True).warnings)


def taken(folder: Path) -> None:
    layout = Layout.create(folder / "dist")
    artifact = layout.add_manifest(ImageManifest(PROJECT, ()))
    with answering(200, ("Docker-Content-Digest", digest_of(b"other"))) as host:
        target = Reference.parse(f"oci://{host}/plant:1.0")
        run_apart(publish(layout, artifact, target, PublishOptions(limits=QUICK)))


def bad_login(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with mock.patch.dict("os.environ", {"DOCKER_CONFIG": str(folder)}):
        run_apart(find_login("host"))


def unreachable(folder: Path) -> None:
    with answering(200) as host:
        pass
    pull(folder, host)


def without_tls(folder: Path) -> None:
    # Plain HTTP is allowed for 127.0.0.1 only.
    with answering(200, address="127.0.0.2") as host:
        pull(folder, host)


CASES = {
    "artifact.credentials-unusable": bad_login,
    "artifact.not-cached": lambda folder: pull(folder, "host", is_offline=True),
    "artifact.registry-denied": lambda folder: pull_from(folder, 403),
    "artifact.registry-failed": lambda folder: pull_from(folder, 500),
    "artifact.registry-slow": slow,
    "artifact.registry-unreachable": unreachable,
    "artifact.registry-unsafe": lambda folder: pull_from(folder, 302, ("Location", "ftp://x/")),
    "artifact.registry-untrusted": without_tls,
    "artifact.stale-tag": stale,
    "artifact.tag-exists": taken,
}
