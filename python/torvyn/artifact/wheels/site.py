"""Unpacks wheels into a folder that Python can import from. It needs neither pip nor an index.

A wheel is a zip file; what it installs next to other packages is at its top or in
`NAME.data/purelib` and `NAME.data/platlib`. Scripts and headers are not needed to run a flow.
"""

from __future__ import annotations

import errno
import shutil
import stat
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from torvyn._io.files import new_folder
from torvyn.artifact.failures import invalid, too_large, unwritable
from torvyn.artifact.paths import check_path
from torvyn.artifact.wheels.tags import Machine, WheelName
from torvyn.errors import MissingError, TorvynError

_MAX_FILES: Final = 100_000
_MAX_BYTES: Final = 4 << 30


def fitting_wheels(paths: Iterable[str], machine: Machine) -> list[str]:
    """One wheel of each distribution; raises `artifact.wheel-missing` if one has none that fits."""
    names = {path: WheelName.parse(PurePosixPath(path).name) for path in sorted(paths)}
    chosen: dict[str, str] = {}
    for path, name in names.items():
        if name.fits(machine):
            chosen.setdefault(name.distribution, path)
    missing = sorted({name.distribution for name in names.values()} - set(chosen))
    if missing:
        python = ".".join(map(str, machine.python))
        message = (
            f"the artifact has no wheel of `{missing[0]}` for Python {python} "
            f"on {machine.architecture}"
        )
        hint = "pack it again with `--with-wheels` and a `--platform` for this machine"
        raise MissingError("artifact.wheel-missing", message, hint=hint)
    return list(chosen.values())


def install(wheels: Collection[Path], target: Path) -> None:
    """Unpacks wheels into the folder `target`, unless it exists. It appears complete."""
    if target.is_dir():
        return
    try:
        with new_folder(target) as made:
            for wheel in wheels:
                _unpack(wheel, made)
    except OSError as error:
        raise unwritable(target, error) from error


def add_to_path(folder: Path) -> None:
    """Makes the packages in a folder importable, after those that are installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _unpack(wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for entry, path in _entries(archive, wheel):
                file = target / path
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, file.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
    except TorvynError:
        raise
    except Exception as error:
        # `zipfile` raises errors of many kinds for damaged files, also an OSError for a place
        # before their start. All others are of the disk.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise invalid(f"`{wheel.name}` is not a usable wheel: {error}") from None


def _entries(archive: zipfile.ZipFile, wheel: Path) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    total = sum(entry.file_size for entry in entries)
    if len(entries) > _MAX_FILES or total > _MAX_BYTES:
        raise too_large(f"`{wheel.name}` has {len(entries)} files with {total} bytes")
    for entry in entries:
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise invalid(f"`{wheel.name}` has a link, `{ascii(entry.filename)[1:-1]}`")
        path = _installed(check_path(entry.filename))
        if path is not None:
            yield entry, path


def _installed(path: str) -> str | None:
    """Where a file of a wheel belongs; None for one that no import needs."""
    first, _, rest = path.partition("/")
    if not first.endswith(".data"):
        return path
    kind, _, inside = rest.partition("/")
    return inside if kind in ("purelib", "platlib") and inside else None
