"""Unpacks an artifact: its files in a new folder, all of them or none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torvyn._io.files import new_folder, sync_folder
from torvyn.artifact.failures import invalid, unwritable
from torvyn.artifact.layout import Layout
from torvyn.artifact.model import (
    COMPONENT,
    MAX_ARTIFACT_BYTES,
    PROJECT,
    Descriptor,
    ImageManifest,
)


def unpack(
    layout: Layout,
    descriptor: Descriptor,
    target: Path,
    *,
    max_bytes: int = MAX_ARTIFACT_BYTES,
) -> ImageManifest:
    """Writes the files of an artifact of torvyn to the folder `target`, which must not exist or
    come from the same artifact.

    All blobs are checked before anything is written. The folder appears complete, by a rename.
    """
    manifest = layout.manifest(descriptor)
    if manifest.artifact_type not in (PROJECT, COMPONENT):
        kind = manifest.artifact_type
        raise invalid(f"the artifact is not a project or a component of torvyn, but `{kind}`")
    files = manifest.files(max_bytes)
    if target.is_dir():
        return manifest
    for layer in manifest.layers:
        layout.verify(layer)
    try:
        _write(layout, files, target)
    except OSError as error:
        raise unwritable(target, error) from error
    return manifest


def _write(layout: Layout, files: Mapping[str, Descriptor], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(target, is_durable=True) as made:
        folders = {made}
        for path, layer in files.items():
            file = made / path
            file.parent.mkdir(parents=True, exist_ok=True)
            folders.update(parent for parent in file.parents if made in parent.parents)
            _write_one(layout, layer, file)
        for folder in folders:
            sync_folder(folder)


def _write_one(layout: Layout, layer: Descriptor, path: Path) -> None:
    # Read-only: what runs is what was verified.
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    with os.fdopen(number, "wb") as file:
        layout.copy(layer, file)
        file.flush()
        os.fsync(number)
