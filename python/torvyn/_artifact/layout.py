"""`Layout`: artifacts in a local folder, as an OCI image layout.

    oci-layout          says that this is one; writers lock it
    index.json          the manifests, with their tags
    blobs/sha256/...    the content, by digest

Readers need no lock: files appear complete, by rename, and a blob is used only after its digest was
checked. The folder may come from anywhere, so files are read only if they are regular: blobs that
are links, devices or pipes are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Final

from torvyn._artifact.oci import (
    EMPTY,
    EMPTY_DATA,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    REF_NAME,
    Descriptor,
    Digest,
    ImageIndex,
    ImageManifest,
    canonical,
    check_digest,
    digest_mismatch,
    digest_of,
    invalid,
    not_found,
    parse_object,
    too_large,
    unreadable,
    unwritable,
)
from torvyn._artifact.reference import check_tag
from torvyn._io.files import FileLock, sync_folder, write_atomically
from torvyn.errors import TorvynError

_CHUNK: Final = 1 << 20


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BufferedReader]:
    """The file. Links, devices and pipes are refused: they could lead anywhere, or never end."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise invalid(f"`{path}` is a link, not a file") from None
        raise unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise invalid(f"`{path}` is not a regular file")
    with os.fdopen(number, "rb") as file:
        yield file


@contextlib.contextmanager
def open_checked(path: Path, descriptor: Descriptor) -> Iterator[BufferedReader]:
    """The file at its start, after its size and its digest were checked."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size != descriptor.size:
            raise digest_mismatch(f"`{path}`", f"it has {size} bytes, not {descriptor.size}")
        with _reading(path):
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _check(Digest(f"sha256:{digest}"), size, descriptor, f"`{path}`")
        file.seek(0)
        yield file


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """The content of a small file that no digest protects."""
    with open_regular(path) as file, _reading(path):
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise too_large(f"`{path}` has more than {limit_bytes} bytes")
    return data


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error


def check_content(data: bytes, descriptor: Descriptor, what: str) -> None:
    """Raises `artifact.digest-mismatch` unless these are the bytes that the descriptor names."""
    _check(digest_of(data), len(data), descriptor, what)


def copy_checked(source: BinaryIO, target: BinaryIO, descriptor: Descriptor, what: str) -> None:
    """Checks what was copied; raises after the last byte if it differs."""
    digest, size = copy_hashed(source, target, descriptor.size)
    _check(digest, size, descriptor, what)


def copy_hashed(
    source: BinaryIO, target: BinaryIO, limit_bytes: int | None = None
) -> tuple[Digest, int]:
    """Copies a file; its digest and size. Stops after the limit."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if limit_bytes is not None and size > limit_bytes:
            break
        target.write(chunk)
    return Digest(f"sha256:{digest.hexdigest()}"), size


@contextlib.contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file that is removed at the end, unless it was renamed."""
    try:
        number, name = tempfile.mkstemp(prefix=".new-", dir=folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    file = os.fdopen(number, "wb+")
    try:
        yield file, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
        # On a full disk, closing writes once more: `keep` has said what failed.
        with contextlib.suppress(OSError):
            file.close()


def keep(file: BinaryIO, source: Path, target: Path) -> None:
    """Renames a complete file so that it survives a power failure."""
    try:
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
        source.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise unwritable(target, error) from error


def write_file(path: Path, data: bytes) -> None:
    """Replaces a file: a reader sees the old content or the new one."""
    try:
        write_atomically(path, data)
    except OSError as error:
        raise unwritable(path, error) from error


def _check(digest: Digest, size: int, descriptor: Descriptor, what: str) -> None:
    if size != descriptor.size:
        raise digest_mismatch(what, f"it has {size} bytes, not {descriptor.size}")
    if digest != descriptor.digest:
        raise digest_mismatch(what, f"its digest is {digest}, not {descriptor.digest}")


def describe_artifact(layout: Layout, descriptor: Descriptor) -> dict[str, Any]:
    manifest = layout.manifest(descriptor)
    files = manifest.files()
    return {
        "digest": descriptor.digest,
        "artifact_type": manifest.artifact_type,
        "size_bytes": sum(blob.size for blob in manifest.blobs),
        "annotations": dict(sorted(manifest.annotations.items())),
        "files": [
            {
                "path": path,
                "size_bytes": layer.size,
                "media_type": layer.media_type,
                "digest": layer.digest,
            }
            for path, layer in sorted(files.items())
        ],
        "referrers": [
            {"digest": each.digest, "artifact_type": each.artifact_type}
            for each in layout.referrers(descriptor.digest)
        ],
    }


_MARKER: Final = "oci-layout"
_READ_BYTES: Final = 256 << 20
_PARSED_BYTES: Final = 16 << 20
"""Of manifests, in a search for referrers. A manifest with one layer has about 700 bytes."""
_KNOWN_BYTES: Final = 5 << 20
_MARKER_DATA: Final = canonical({"imageLayoutVersion": "1.0.0"})


class Layout:
    """The layout in a folder; `create` makes one."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._known: dict[Digest, ImageManifest] = {}
        self._known_bytes = 0
        if not is_layout(folder):
            hint = "name a folder that `torvyn pack` wrote"
            raise not_found("artifact: it is not an OCI layout", f"`{folder}`", hint)
        data = read_regular(folder / _MARKER, 4096)
        version = parse_object(data, f"`{folder / _MARKER}`", 4096).get("imageLayoutVersion")
        if version != "1.0.0":
            raise invalid(f"`{folder}` is not an OCI layout of version 1.0.0")

    @classmethod
    def create(cls, folder: Path) -> Layout:
        """Opens the layout, after making it if the folder has none."""
        try:
            (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(folder, error) from error
        if not (folder / "index.json").exists():
            write_file(folder / "index.json", ImageIndex().serialize())
        if not is_layout(folder):
            write_file(folder / _MARKER, _MARKER_DATA)
        return cls(folder)

    def path(self, digest: Digest) -> Path:
        """Where the blob is, or would be."""
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob with this digest and size is here; its content is not checked."""
        try:
            status = self.path(descriptor.digest).lstat()
        except OSError:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == descriptor.size

    # Reading

    def open(self, descriptor: Descriptor) -> contextlib.AbstractContextManager[BufferedReader]:
        """The blob as a file at its start, after its content was checked."""
        return open_checked(self.path(descriptor.digest), descriptor)

    def verify(self, descriptor: Descriptor) -> None:
        """Raises `artifact.digest-mismatch` unless the blob is complete and unchanged."""
        with self.open(descriptor):
            pass

    def read(self, descriptor: Descriptor, limit_bytes: int = MAX_MANIFEST_BYTES) -> bytes:
        """The checked content of a small blob."""
        if descriptor.size > limit_bytes:
            size = f"{descriptor.size} bytes; the limit is {limit_bytes}"
            raise too_large(f"the blob {descriptor.digest} has {size}")
        path = self.path(descriptor.digest)
        data = read_regular(path, limit_bytes)
        check_content(data, descriptor, f"`{path}`")
        return data

    def copy(self, descriptor: Descriptor, target: BinaryIO) -> None:
        """Copies the blob and checks what was copied; raises after the last byte if it differs."""
        path = self.path(descriptor.digest)
        with open_regular(path) as file:
            copy_checked(file, target, descriptor, f"`{path}`")

    def manifest(self, descriptor: Descriptor) -> ImageManifest:
        _check_kind(descriptor)
        return self._parsed(descriptor.digest, self.read(descriptor))

    def _parsed(self, digest: Digest, data: bytes) -> ImageManifest:
        """The manifest in the bytes. Those that were parsed last are kept: parsing a large one
        takes a third of a second, and a pull needs it several times."""
        if digest not in self._known:
            manifest = ImageManifest.parse(data)
            if self._known_bytes + len(data) > _KNOWN_BYTES:
                self._known.clear()
                self._known_bytes = 0
            self._known[digest] = manifest
            self._known_bytes += len(data)
        return self._known[digest]

    def index(self) -> ImageIndex:
        path = self.folder / "index.json"
        return ImageIndex.parse(read_regular(path, MAX_MANIFEST_BYTES), f"`{path}`")

    def tags(self) -> dict[str, Descriptor]:
        """The tagged manifests. Refuses an index in which two have the same tag."""
        tags: dict[str, Descriptor] = {}
        for descriptor in self.index().manifests:
            name = _tag(descriptor)
            if name in tags:
                raise invalid(f"`{self.folder}` has two artifacts with the tag `{name}`")
            if name:
                tags[check_tag(name)] = descriptor
        return tags

    def resolve(self, target: str | None = None) -> Descriptor:
        """The manifest with this tag or digest; without one, the only tagged one."""
        tags = self.tags()
        where = f"`{self.folder}`"
        known = f"its tags are {', '.join(f'`{tag}`' for tag in tags)}" if tags else None
        if target in tags:
            return tags[target]
        if target is None:
            if len({descriptor.digest for descriptor in tags.values()}) == 1:
                return next(iter(tags.values()))
            raise not_found("single artifact", where, known and f"name a tag: {known}")
        if ":" not in target:
            raise not_found(f"artifact with the tag `{target}`", where, known)
        digest = check_digest(target)
        for descriptor in self.index().manifests:
            if descriptor.digest == digest:
                return descriptor
        raise not_found(f"artifact {digest}", where, known)

    def referrers(
        self,
        digest: Digest,
        artifact_type: str | None = None,
        limit_bytes: int = MAX_MANIFEST_BYTES,
    ) -> list[Descriptor]:
        """The artifacts about this one, such as its signatures, in the order of their digests.
        Larger ones are skipped, and reading ends before it takes long: an index may list a thousand
        large manifests that are about nothing."""
        found, read_bytes, parsed_bytes = [], 0, 0
        for descriptor in self._listed():
            if descriptor.size > limit_bytes:
                continue
            read_bytes += descriptor.size
            if read_bytes > _READ_BYTES or parsed_bytes > _PARSED_BYTES:
                break
            with contextlib.suppress(TorvynError):
                _check_kind(descriptor)
                data = self.read(descriptor)
                if digest.encode() not in data:
                    continue
                parsed_bytes += len(data)
                manifest = self._parsed(descriptor.digest, data)
                is_about = manifest.subject is not None and manifest.subject.digest == digest
                if is_about and artifact_type in (None, manifest.artifact_type):
                    found.append(replace(descriptor, artifact_type=manifest.artifact_type))
        return found

    def manifests(self) -> Iterator[tuple[Descriptor, ImageManifest]]:
        """What the index lists. Those that cannot be read are skipped: an artifact is not worse
        because something worthless stands beside it."""
        for descriptor in self._listed():
            with contextlib.suppress(TorvynError):
                yield descriptor, self.manifest(descriptor)

    def _listed(self) -> list[Descriptor]:
        """What the index lists, each digest once, in their order."""
        listed = {each.digest: each for each in self.index().manifests}
        return [replace(listed[digest], annotations={}) for digest in sorted(listed)]

    # Writing

    def add(
        self, media_type: str, data: bytes, annotations: Mapping[str, str] | None = None
    ) -> Descriptor:
        """Stores a blob."""
        descriptor = Descriptor.of(media_type, data, annotations)
        if not self.has(descriptor):
            write_file(self.path(descriptor.digest), data)
        return descriptor

    def add_file(
        self, media_type: str, path: Path, annotations: Mapping[str, str] | None = None
    ) -> Descriptor:
        """Stores the content of a file as a blob."""
        folder = self.folder / "blobs" / "sha256"
        with temporary_file(folder) as (file, temporary), open_regular(path) as source:
            try:
                digest, size = copy_hashed(source, file)
            except OSError as error:
                raise unwritable(folder, error) from error
            descriptor = Descriptor(media_type, digest, size, annotations or {})
            if not self.has(descriptor):
                keep(file, temporary, self.path(digest))
        return descriptor

    def adopt(self, path: Path, descriptor: Descriptor) -> None:
        """Moves a finished download, on the same file system, into the layout after checking it.
        If it differs from the descriptor, the file stays where it is."""
        with open_checked(path, descriptor) as file:
            keep(file, path, self.path(descriptor.digest))

    def take(self, other: Layout, manifest: ImageManifest) -> None:
        """Moves the blobs of a manifest from a layout on the same file system, which is ours."""
        for blob in manifest.blobs:
            if other.has(blob) and not self.has(blob):
                try:
                    other.path(blob.digest).replace(self.path(blob.digest))
                except OSError as error:
                    raise unwritable(self.path(blob.digest), error) from error
        sync_folder(self.folder / "blobs" / "sha256")

    def add_manifest(self, manifest: ImageManifest, *tags: str) -> Descriptor:
        """Stores a manifest whose blobs are here, and lists it in the index."""
        if manifest.config.digest == EMPTY.digest:
            self.add(EMPTY.media_type, EMPTY_DATA)
        self.add(IMAGE_MANIFEST, manifest.serialize())
        descriptor = manifest.descriptor()
        self.list_manifest(descriptor, *tags)
        return descriptor

    def list_manifest(self, descriptor: Descriptor, *tags: str) -> None:
        """Lists a stored manifest in the index. A tag that another manifest has moves to it."""
        plain = replace(descriptor, annotations={})
        new = {tag: replace(plain, annotations={REF_NAME: check_tag(tag)}) for tag in tags}
        with self._locked():
            listed = {(_tag(each), each.digest): each for each in self.index().manifests}
            kept = {key: each for key, each in listed.items() if key[0] not in new}
            kept |= {(tag, each.digest): each for tag, each in new.items()}
            if any(tag and digest == plain.digest for tag, digest in kept):
                kept.pop(("", plain.digest), None)
            else:
                kept["", plain.digest] = plain
            index = ImageIndex(tuple(kept[key] for key in sorted(kept)))
            write_file(self.folder / "index.json", index.serialize())

    def remove(self, digests: Collection[Digest]) -> None:
        """Removes manifests and what refers to them, and the blobs that nothing else names. Entries
        that cannot be read go too."""
        with self._locked():
            named: dict[Digest, set[Digest]] = {}
            gone = set(digests)
            for descriptor, manifest in self.manifests():
                named[descriptor.digest] = {descriptor.digest, *(b.digest for b in manifest.blobs)}
                if manifest.subject is not None and manifest.subject.digest in digests:
                    gone.add(descriptor.digest)
            listed = [each for each in self.index().manifests if each.digest in named.keys() - gone]
            write_file(self.folder / "index.json", ImageIndex(tuple(listed)).serialize())
            kept = set[Digest]().union(*(named[each.digest] for each in listed))
            for digest in gone:
                for each in named.get(digest, {digest}) - kept:
                    self._unlink(each)

    def _unlink(self, digest: Digest) -> None:
        try:
            self.path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.path(digest), error) from error

    def tag(self, name: str, descriptor: Descriptor) -> None:
        self.list_manifest(descriptor, name)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer of the index at a time. The lock ends with the process."""
        try:
            lock = FileLock(self.folder / _MARKER)
        except OSError as error:
            raise unreadable(self.folder / _MARKER, error) from error
        with lock.acquire(wait_s=None):
            yield


def is_layout(folder: Path) -> bool:
    """Whether a folder looks like a layout."""
    return (folder / _MARKER).is_file()


def _check_kind(descriptor: Descriptor) -> None:
    if descriptor.media_type != IMAGE_MANIFEST:
        raise invalid(f"{descriptor.digest} is not an image manifest")


def _tag(descriptor: Descriptor) -> str:
    return descriptor.annotations.get(REF_NAME, "")


def copy_artifact(source: Layout, artifact: Descriptor, folder: Path, *tags: str) -> Layout:
    """Copies the artifact with its signatures; every blob is checked."""
    target = Layout.create(folder)
    for referrer in source.referrers(artifact.digest):
        copy_one(source, referrer, target)
    copy_one(source, artifact, target, *tags)
    return target


def copy_one(source: Layout, artifact: Descriptor, target: Layout, *tags: str) -> None:
    """Copies only the artifact itself."""
    for blob in source.manifest(artifact).blobs:
        if not target.has(blob):
            source.verify(blob)
            target.add_file(blob.media_type, source.path(blob.digest))
    target.add(IMAGE_MANIFEST, source.read(artifact))
    target.list_manifest(artifact, *tags)
