"""Downloads an artifact into a layout, within its limits. A cut download continues later.

An artifact is one blob per file, so a new version shares most of them with the one before. What an
earlier generation has on disk is copied from there, after its digest was checked.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from torvyn.artifact.blob_files import check_content
from torvyn.artifact.failures import too_large
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import (
    EMPTY,
    EMPTY_DATA,
    IMAGE_MANIFEST,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Digest,
    ImageManifest,
)
from torvyn.edge.channel import ArtifactEntry
from torvyn.edge.update.source import ChannelSource, Progress
from torvyn.errors import TorvynError


def download(
    source: ChannelSource,
    entry: ArtifactEntry,
    folder: Path,
    earlier: list[Path],
    progress: Progress = lambda count: None,
) -> tuple[Layout, Descriptor]:
    """The artifact in a layout in `folder`. `earlier` are the projects of other generations."""
    layout = Layout.create(folder)
    data = source.manifest(entry.digest, min(entry.size, MAX_MANIFEST_BYTES))
    descriptor = Descriptor(IMAGE_MANIFEST, entry.digest, len(data))
    check_content(data, descriptor, f"the manifest of `{entry.name}`")
    blobs = _blobs(data, entry)
    _remove_others(layout, [entry.digest, *(blob.digest for blob in blobs)])
    missing = [
        blob for blob in blobs if not _is_here(layout, blob) and not _copied(layout, blob, earlier)
    ]
    source.fetch(missing, layout, progress)
    layout.add(IMAGE_MANIFEST, data)
    layout.list_manifest(descriptor)
    return layout, descriptor


def discard(folder: Path) -> None:
    """Removes what was downloaded: it has become a generation."""
    shutil.rmtree(folder, ignore_errors=True)


def total_bytes(data: bytes) -> int:
    """The size of an artifact, as a channel states it: its manifest and all its blobs."""
    return len(data) + sum(blob.size for blob in ImageManifest.parse(data).blobs)


def _blobs(data: bytes, entry: ArtifactEntry) -> tuple[Descriptor, ...]:
    """What to fetch: not more than the channel says."""
    blobs = ImageManifest.parse(data).blobs
    size = len(data) + sum(blob.size for blob in blobs)
    if size > entry.size:
        problem = f"the artifact `{entry.name}` has {size} bytes; its channel says {entry.size}"
        raise too_large(problem)
    return blobs


def _remove_others(layout: Layout, digests: list[Digest]) -> None:
    """Removes what cut downloads of other versions have left: a device has room for one."""
    names = {digest.removeprefix("sha256:") for digest in digests}
    for folder in (layout.path(digests[0]).parent, layout.folder / "parts"):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)


def _is_here(layout: Layout, blob: Descriptor) -> bool:
    if not layout.has(blob):
        return False
    try:
        layout.verify(blob)
    except TorvynError:
        return False
    return True


def _copied(layout: Layout, blob: Descriptor, earlier: list[Path]) -> bool:
    """Whether a file of an earlier generation is this blob."""
    if blob.digest == EMPTY.digest:
        layout.add(EMPTY.media_type, EMPTY_DATA)
        return True
    if not blob.title:
        return False
    for project in earlier:
        file = project / blob.title
        if file.is_file() and file.stat().st_size == blob.size:
            added = layout.add_file(blob.media_type, file)
            if added.digest == blob.digest:
                return True
    return False
