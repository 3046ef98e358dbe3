"""Where a channel comes from. Its artifacts come from the same place.

    channel.json on a stick      with the OCI layout in the same folder
    https://host/channel.json    the same folder on a web server
    oci://host/name:tag          a repository of a registry, with the artifacts beside the channel

Nothing that a source returns is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from torvyn.artifact.blob_files import open_regular, read_regular
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Descriptor, Digest
from torvyn.artifact.reference import SCHEME
from torvyn.edge.channel.publication import MAX_BYTES
from torvyn.edge.failures import disk_failed, unreachable
from torvyn.errors import ArtifactError, MissingError

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
        from torvyn.edge.update.registry_source import RegistrySource

        return RegistrySource(source, limits, is_insecure=is_insecure)
    if source.startswith(("http://", "https://")):
        from torvyn.edge.update.web_source import WebSource

        return WebSource(source, limits)
    return FolderSource(Path(source))
