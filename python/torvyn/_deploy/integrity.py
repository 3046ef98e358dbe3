"""Compares the files of a generation with the digests of its artifact, before they are run.

Files are hashed once per boot of the machine, as long as they look the same: a power failure is
what leaves files that are cut, empty or of another content. Nothing is written here but the note
about what was compared.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from torvyn._artifact.layout import copy_checked, open_regular, read_regular
from torvyn._artifact.oci import MAX_MANIFEST_BYTES, ImageManifest, digest_of
from torvyn._deploy.disk import Disk
from torvyn._deploy.generation_state import PROJECT, GenerationRecord, artifact_of
from torvyn._io.resources import boot_id
from torvyn.errors import ArtifactError, TorvynError

VERIFICATIONS: Final = ("boot", "start", "off")
_DAMAGE: Final = (errno.ENOENT, errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EUCLEAN)
"""What the disk says of a file that was there. Other errors are of this process."""


class Integrity:
    """What is known about the files of the generations of one deployment."""

    def __init__(self, note: Path, mode: str = "boot") -> None:
        """`note`: where it is stored what was compared. `mode`: `boot` compares files that look the
        same once per boot, `start` at each start, `off` never."""
        self._note: Final = note
        self._mode: Final = mode

    def damage(
        self,
        record: GenerationRecord,
        folder: Path,
        on_chunk: Callable[[], None] = lambda: None,
    ) -> str | None:
        """What is wrong with the files of a generation; None if nothing is. `on_chunk` is called
        again and again, because large files take a while."""
        if self._mode == "off" or not os.path.lexists(artifact_of(folder)):
            return None
        before = _looks(record, folder)
        if self._mode == "boot" and before in self._compared():
            return None
        try:
            _compare(record, folder, on_chunk)
        except ArtifactError as error:
            return error.message
        except TorvynError as error:
            # A file that this process may not read, for example, is not damaged for that.
            cause = error.__cause__
            is_damage = isinstance(cause, OSError) and cause.errno in _DAMAGE
            return error.message if is_damage else None
        if self._mode == "boot":
            self._remember(before)
        return None

    def _compared(self) -> list[str]:
        try:
            found = json.loads(self._note.read_bytes())
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []

    def _remember(self, looks: str) -> None:
        # The current generation and its fallback; without the note, files are compared once more.
        kept = [looks, *(each for each in self._compared() if each != looks)][:4]
        with suppress(TorvynError):
            Disk().write(self._note, json.dumps(kept).encode() + b"\n")


def _compare(record: GenerationRecord, folder: Path, on_chunk: Callable[[], None]) -> None:
    data = read_regular(artifact_of(folder), MAX_MANIFEST_BYTES)
    if digest_of(data) != record.digest:
        raise ArtifactError("artifact.digest-mismatch", "its list of files has changed")
    for path, layer in ImageManifest.parse(data).files().items():
        with open_regular(folder / PROJECT / path) as file:
            copy_checked(file, cast("BinaryIO", _Nowhere(on_chunk)), layer, f"`{path}`")


class _Nowhere:
    """Takes chunks, and says so."""

    def __init__(self, on_chunk: Callable[[], None]) -> None:
        self._on_chunk = on_chunk

    def write(self, data: bytes) -> int:
        self._on_chunk()
        return len(data)


def _looks(record: GenerationRecord, folder: Path) -> str:
    """A digest of what the file system says about the files, in this boot."""
    digest = hashlib.sha256(f"{record.digest} {boot_id()} ".encode())
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            with suppress(OSError):
                path = os.path.join(parent, name)
                status = os.lstat(path)
                fields = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                digest.update(f"{fields} ".encode() + os.fsencode(path) + b"\0")
    return digest.hexdigest()
