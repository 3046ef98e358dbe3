"""The files of a project on the machines of a cluster.

On the machine of the command the project is used where it is, so that relative paths mean the same
as in one process. Other machines get its files: those that `torvyn pack` would pack.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from torvyn._artifact.oci import invalid
from torvyn._artifact.paths import MANIFEST_PATH, check_paths
from torvyn._cluster.failures import project_too_large
from torvyn._cluster.job import ProjectCopy
from torvyn._io.files import new_folder, own_temporary_folder
from torvyn._io.resources import boot_id
from torvyn._link.overrides import Overrides
from torvyn._manifest.records import Manifest

LARGEST_BYTES: Final = 256 << 20
_PREFIX: Final = "TORVYN_"


@cache
def host_id() -> str:
    """Names this machine since it was started."""
    return boot_id() + platform.node()


def environment_of(manifest: Manifest, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the manifest uses, and settings."""
    names = {name for name in environ if name.startswith(_PREFIX)} | manifest.variables
    return {name: environ[name] for name in names if name in environ}


def copy_project(manifest: Manifest, overrides: Overrides, *, has_archive: bool) -> ProjectCopy:
    """The project for all machines; without an archive, for this one."""
    path = Path(manifest.file).resolve()
    copy = ProjectCopy(
        host_id(), str(path), os.getcwd(), environ=environment_of(manifest, os.environ)
    )
    if not has_archive:
        return copy
    files = _files(manifest, overrides, path.parent)
    return replace(copy, archive=_archive(files), files=frozenset(files))


def _files(manifest: Manifest, overrides: Overrides, folder: Path) -> dict[str, Path]:
    if overrides.packed_files is not None:
        return {name: folder / name for name in overrides.packed_files}
    # Groups import this module, and pack nothing.
    from torvyn._artifact.project_files import ProjectFiles

    files = ProjectFiles.of(manifest).files
    return {**files, MANIFEST_PATH: Path(manifest.file)}


def _archive(files: Mapping[str, Path]) -> bytes:
    total = sum(file.stat().st_size for file in files.values())
    if total > LARGEST_BYTES:
        raise project_too_large(total, LARGEST_BYTES)
    data = io.BytesIO()
    # The content of a link travels, not the link.
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1, dereference=True) as archive:
        for name, file in sorted(files.items()):
            archive.add(file, name, recursive=False)
    return data.getvalue()


def open_project(copy: ProjectCopy, overrides: Overrides) -> tuple[Path, Overrides]:
    """The manifest on this machine, and the overrides for it. Enters the folder of the command, or
    that of the copy."""
    os.environ.update(copy.environ)
    if copy.archive is None or (copy.host == host_id() and os.path.exists(copy.manifest)):
        os.chdir(copy.folder)
        return Path(copy.manifest), overrides
    folder = _unpack(copy.archive)
    os.chdir(folder)
    return folder / MANIFEST_PATH, replace(overrides, packed_files=copy.files)


def _unpack(archive: bytes) -> Path:
    """The folder of the files, which replicas on one machine share."""
    digest = hashlib.sha256(archive).hexdigest()[:24]
    parent = own_temporary_folder("torvyn-projects")
    folder = parent / digest
    if folder.exists():
        return folder
    with new_folder(folder, mode=0o700) as made:
        _extract(archive, made)
    return folder


def _extract(archive: bytes, folder: Path) -> None:
    """Writes the files of the archive below the folder. Nothing is written if one of them is no
    plain file or has a path that leads elsewhere. `extractall` is safe only from Python 3.11.4 on.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        members = packed.getmembers()
        check_paths(member.name for member in members)
        for member in members:
            if not member.isreg():
                raise invalid(f"`{member.name}` in the copy of the project is not a plain file")
        for member in members:
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = packed.extractfile(member)
            assert content is not None
            with content, path.open("xb") as file:
                shutil.copyfileobj(content, file)
            path.chmod(0o755 if member.mode & 0o100 else 0o644)
