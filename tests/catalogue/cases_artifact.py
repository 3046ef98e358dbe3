"""Every `artifact.*` code."""

from __future__ import annotations

from pathlib import Path

from torvyn.artifact.layout import Layout
from torvyn.artifact.model import MAX_MANIFEST_BYTES, Descriptor, ImageManifest
from torvyn.artifact.paths import check_path
from torvyn.artifact.reference import Reference


def damaged_blob(folder: Path) -> None:
    layout = Layout.create(folder)
    blob = layout.add("text/plain", b"text")
    layout.path(blob.digest).write_bytes(b"tExt")
    layout.verify(blob)


def unwritable(folder: Path) -> None:
    (folder / "file").touch()
    Layout.create(folder / "file" / "dist")


CASES = {
    "artifact.bad-path": lambda _: check_path("../a"),
    "artifact.bad-reference": lambda _: Reference.parse("oci://host"),
    "artifact.digest-mismatch": damaged_blob,
    "artifact.invalid": lambda _: ImageManifest.parse(b"{}"),
    "artifact.not-found": lambda folder: Layout.create(folder).resolve("1.0"),
    "artifact.too-large": lambda _: ImageManifest.parse(b" " * (MAX_MANIFEST_BYTES + 1)),
    "artifact.unreadable": lambda folder: Layout.create(folder).read(
        Descriptor.of("text/plain", b"text")
    ),
    "artifact.unwritable": unwritable,
}
