"""Every `artifact.*` code."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._artifact.layout import Layout
from torvyn._artifact.lock import Lock
from torvyn._artifact.oci import MAX_MANIFEST_BYTES, Descriptor, ImageManifest
from torvyn._artifact.pack import Packed, PackOptions, pack
from torvyn._artifact.paths import check_path
from torvyn._artifact.reference import Reference
from torvyn._artifact.unpack import private_folder
from torvyn._artifact.wheels import Machine, fitting_wheels
from torvyn._manifest.parse import read

MANIFEST = """
[torvyn]
name = "x"
version = "1.0.0"
contract_version = "0.1.0"
[[component]]
name = "guard"
path = "guard.wasm"
[flow.main.nodes.a]
component = "guard"
"""


def damaged_blob(folder: Path) -> None:
    layout = Layout.create(folder)
    blob = layout.add("text/plain", b"text")
    layout.path(blob.digest).write_bytes(b"tExt")
    layout.verify(blob)


def unwritable(folder: Path) -> None:
    (folder / "file").touch()
    Layout.create(folder / "file" / "dist")


def packed(folder: Path, **options: object) -> Packed:
    """Packs a project with one `.wasm` file."""
    (folder / "Torvyn.toml").write_text(MANIFEST)
    if not (folder / "guard.wasm").exists():
        (folder / "guard.wasm").write_bytes(b"guard")
    manifest = read(folder / "Torvyn.toml")
    return pack(manifest, PackOptions(folder / "dist", **options))  # type: ignore[arg-type]


def replaced(folder: Path) -> None:
    packed(folder)
    (folder / "guard.wasm").write_bytes(b"another")
    packed(folder)


def fixed_time(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "today")
        packed(folder)


def link_outside(folder: Path) -> None:
    (folder / "guard.wasm").symlink_to("/etc/passwd")
    packed(folder)


def exposed_cache(folder: Path) -> None:
    (folder / "cache").mkdir()
    (folder / "cache").chmod(0o777)
    private_folder(folder / "cache")


def failing_download(folder: Path) -> None:
    (folder / "requirements.txt").write_text("no-such-package-of-torvyn\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_NO_INDEX", "1")
        patch.setenv("PIP_FIND_LINKS", str(folder))
        packed(folder, has_wheels=True)


CASES = {
    "artifact.bad-epoch": fixed_time,
    "artifact.bad-lock": lambda _: Lock.parse(b"schema = 2"),
    "artifact.bad-pattern": lambda folder: packed(folder, include=("nothing",)),
    "artifact.bad-target": lambda folder: packed(folder, targets=("z80-cpm",)),
    "artifact.cache-exposed": exposed_cache,
    "artifact.lock-mismatch": replaced,
    "artifact.lock-outdated": lambda folder: packed(folder, is_locked=True),
    "artifact.outside": link_outside,
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
    "artifact.wheel-missing": lambda _: fitting_wheels(["x-1-py3-none-win32.whl"], Machine.here()),
    "artifact.wheels-failed": failing_download,
}
