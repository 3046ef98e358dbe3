"""The cache: a layout with the artifacts that were fetched, and which digest each tag had.

An artifact in it needs no network again. A tag may have moved since, so a cached one is used only
when the registry cannot be asked, and its age is shown.

The cache is bounded: what was not used for longest makes room. The time at which an artifact was
used last is that of the file with its manifest. Nothing is stored that the trust policy rejects, or
anyone who may push to a registry could push out what is here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from torvyn._artifact.layout import Layout, copy_one, is_layout, read_regular, write_file
from torvyn._artifact.oci import (
    IMAGE_MANIFEST,
    MAX_ARTIFACT_BYTES,
    Descriptor,
    Digest,
    ImageManifest,
    canonical,
    invalid,
    parse_object,
    text_field,
    unwritable,
)
from torvyn._artifact.reference import Reference
from torvyn._artifact.unpack import default_cache_dir, private_folder
from torvyn.errors import ArtifactError, TorvynError

MAX_ENTRIES: Final = 1000
"""Artifacts and their signatures; an index may list `MAX_LAYERS`."""
MAX_BYTES: Final = 2 * MAX_ARTIFACT_BYTES
_LIMIT_BYTES: Final = 4096
_STAGING: Final = "staging-"
_LEFT_S: Final = 7 * 86_400
"""How long the parts of a download that was cut wait for the next try."""


def cache_folder(cache_dir: Path | None = None) -> Path:
    """The folder of fetched artifacts: in `runtime.cache_dir`, else in the user's cache."""
    return (cache_dir or default_cache_dir()) / "artifacts"


@dataclass(frozen=True, slots=True)
class CachedArtifact:
    digest: Digest
    size_bytes: int
    """Of its files; other artifacts may share some."""
    signatures: int
    used_s: float
    """When, in seconds since 1970."""
    references: tuple[str, ...]
    """The names under which it was fetched by tag."""


class Cache:
    def __init__(
        self, folder: Path, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
    ) -> None:
        self.layout: Final = _open(folder)
        self._tags = folder / "tags"
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    # Tags

    def remember(self, reference: Reference, digest: Digest) -> None:
        """Stores which artifact a tag names now."""
        record = {
            "reference": _name(reference),
            "digest": digest,
            "at": datetime.now(UTC).isoformat(),
        }
        try:
            self._tags.mkdir(exist_ok=True)
        except OSError as error:
            raise unwritable(self._tags, error) from error
        write_file(self._tag_file(reference), canonical(record))
        _unlink_all(_oldest_first(self._tags)[: -self._max_entries])

    def recall(self, reference: Reference) -> tuple[Digest, datetime] | None:
        """Which artifact a tag named when the registry was last asked, and when that was."""
        path = self._tag_file(reference)
        if not path.exists():
            return None
        name, digest, at = _read_tag(path)
        if name != _name(reference):
            raise invalid(f"`{path}` is about another reference")
        return digest, at

    # Artifacts

    def find(self, digest: Digest) -> Descriptor | None:
        """The artifact, if all of it is here. Contents are checked when they are read."""
        try:
            descriptor = self.layout.resolve(digest)
            manifest: ImageManifest = self.layout.manifest(descriptor)
        except TorvynError:
            return None
        if not all(self.layout.has(blob) for blob in manifest.blobs):
            return None
        with contextlib.suppress(OSError):
            os.utime(self.layout.path(digest))
        return descriptor

    @contextlib.contextmanager
    def staging(self) -> Iterator[Layout]:
        """A layout for what is fetched before the verdict; gone after the block."""
        try:
            folder = tempfile.mkdtemp(prefix=_STAGING, dir=self.layout.folder)
        except OSError as error:
            raise unwritable(self.layout.folder, error) from error
        try:
            yield Layout.create(Path(folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def store(self, descriptor: Descriptor, data: bytes, staged: Layout) -> None:
        """Lists an artifact whose blobs are here, with its signatures from another layout."""
        for referrer in staged.referrers(descriptor.digest):
            copy_one(staged, referrer, self.layout)
        self.layout.add(IMAGE_MANIFEST, data)
        self.layout.list_manifest(descriptor)
        self.find(descriptor.digest)

    def make_room(self, entries: int, size_bytes: int) -> None:
        """Removes what was not used for longest until so much more fits in."""
        if self._has_room(entries, size_bytes):
            return
        self._sweep()
        artifacts = self.artifacts()
        while artifacts and not self._has_room(entries, size_bytes):
            self.remove([artifacts.pop()])

    def _has_room(self, entries: int, size_bytes: int) -> bool:
        listed = len(self.layout.index().manifests)
        is_listed = listed + entries <= self._max_entries
        return is_listed and self.size_bytes() + size_bytes <= self._max_bytes

    def artifacts(self) -> list[CachedArtifact]:
        """The last used first. A signature whose artifact is not here counts as an artifact."""
        manifests = {each.digest: manifest for each, manifest in self.layout.manifests()}
        subjects = {
            digest: manifest.subject.digest
            for digest, manifest in manifests.items()
            if manifest.subject is not None and manifest.subject.digest in manifests
        }
        signatures, names = Counter(subjects.values()), self._names()
        found = [
            CachedArtifact(
                digest,
                sum(blob.size for blob in manifest.blobs),
                signatures[digest],
                _changed_s(self.layout.path(digest)),
                tuple(sorted(names.get(digest, ()))),
            )
            for digest, manifest in manifests.items()
            if digest not in subjects
        ]
        return sorted(found, key=lambda artifact: -artifact.used_s)

    def remove(self, artifacts: Sequence[CachedArtifact]) -> None:
        digests = {artifact.digest for artifact in artifacts}
        self.layout.remove(digests)
        _unlink_all(path for path in _oldest_first(self._tags) if _tag_digest(path) in digests)

    def size_bytes(self) -> int:
        """Of all files, also of downloads that were cut."""
        folders = (self.layout.folder / "blobs" / "sha256", self.layout.folder / "partial")
        return sum(_size_bytes(path) for folder in folders for path in _oldest_first(folder))

    def _names(self) -> dict[Digest, list[str]]:
        names: dict[Digest, list[str]] = {}
        for path in _oldest_first(self._tags):
            with contextlib.suppress(TorvynError):
                name, digest, _ = _read_tag(path)
                names.setdefault(digest, []).append(name)
        return names

    def _sweep(self) -> None:
        """Removes what cannot be read, and what downloads have left that nobody has continued."""
        self.layout.remove(())
        kept = {
            each.removeprefix("sha256:")
            for descriptor, manifest in self.layout.manifests()
            for each in (descriptor.digest, *(blob.digest for blob in manifest.blobs))
        }
        folder, before_s = self.layout.folder, time.time() - _LEFT_S
        files = [*_oldest_first(folder / "blobs" / "sha256"), *_oldest_first(folder / "partial")]
        _unlink_all(path for path in files if path.name not in kept and _changed_s(path) < before_s)
        for path in folder.glob(f"{_STAGING}*"):
            if _changed_s(path) < before_s:
                shutil.rmtree(path, ignore_errors=True)

    def _tag_file(self, reference: Reference) -> Path:
        return self._tags / hashlib.sha256(_name(reference).encode()).hexdigest()


def _open(folder: Path) -> Layout:
    """The layout of the cache; an empty one in place of one that cannot be read: whatever was in it
    can be fetched again, but nothing could be fetched any more."""
    private_folder(folder)
    if is_layout(folder):
        try:
            layout = Layout(folder)
            layout.index()
            return layout
        except ArtifactError:
            shutil.rmtree(folder, ignore_errors=True)
    return Layout.create(private_folder(folder))


def _name(reference: Reference) -> str:
    return f"{reference.host}/{reference.repository}:{reference.tag or 'latest'}"


def _read_tag(path: Path) -> tuple[str, Digest, datetime]:
    what = f"`{path}`"
    record = parse_object(read_regular(path, _LIMIT_BYTES), what, _LIMIT_BYTES)
    try:
        at = datetime.fromisoformat(text_field(record, "at", what))
    except ValueError as error:
        raise invalid(f"{what}: {error}") from None
    return text_field(record, "reference", what), Digest(text_field(record, "digest", what)), at


def _tag_digest(path: Path) -> Digest | None:
    try:
        return _read_tag(path)[1]
    except TorvynError:
        return None


def _oldest_first(folder: Path) -> list[Path]:
    """The files of a folder that others may change meanwhile."""
    try:
        return sorted(folder.iterdir(), key=lambda path: (_changed_s(path), path))
    except OSError:
        return []


def _changed_s(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _size_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _unlink_all(paths: Iterable[Path]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
