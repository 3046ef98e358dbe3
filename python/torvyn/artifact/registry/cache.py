"""The cache: a layout with every artifact that was fetched, and which digest each tag had.

An artifact in it needs no network again. A tag may have moved since, so a cached one is used only
when the registry cannot be asked, and its age is shown.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from torvyn.artifact.blob_files import read_regular, write_file
from torvyn.artifact.failures import invalid, unwritable
from torvyn.artifact.json_form import canonical, parse_object, text_field
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import Descriptor, Digest, ImageManifest
from torvyn.artifact.prepare import default_cache_dir, private_folder
from torvyn.artifact.reference import Reference
from torvyn.errors import TorvynError

_LIMIT_BYTES: Final = 4096


def cache_folder(cache_dir: Path | None = None) -> Path:
    """The folder of fetched artifacts: in `runtime.cache_dir`, else in the user's cache."""
    return (cache_dir or default_cache_dir()) / "artifacts"


class Cache:
    def __init__(self, folder: Path) -> None:
        self.layout: Final = Layout.create(private_folder(folder))
        self._tags = folder / "tags"

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

    def recall(self, reference: Reference) -> tuple[Digest, datetime] | None:
        """Which artifact a tag named when the registry was last asked, and when that was."""
        path = self._tag_file(reference)
        if not path.exists():
            return None
        what = f"`{path}`"
        record = parse_object(read_regular(path, _LIMIT_BYTES), what, _LIMIT_BYTES)
        if record.get("reference") != _name(reference):
            raise invalid(f"{what} is about another reference")
        at = datetime.fromisoformat(text_field(record, "at", what))
        return Digest(text_field(record, "digest", what)), at

    def find(self, digest: Digest) -> Descriptor | None:
        """The artifact, if all of it is here. Contents are checked when they are read."""
        try:
            descriptor = self.layout.resolve(digest)
            manifest: ImageManifest = self.layout.manifest(descriptor)
        except TorvynError:
            return None
        return descriptor if all(self.layout.has(blob) for blob in manifest.blobs) else None

    def _tag_file(self, reference: Reference) -> Path:
        return self._tags / hashlib.sha256(_name(reference).encode()).hexdigest()


def _name(reference: Reference) -> str:
    return f"{reference.host}/{reference.repository}:{reference.tag or 'latest'}"
