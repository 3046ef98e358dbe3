"""The wheels that a project needs: downloaded with pip, and unpacked without it.

They are downloaded for this machine or for others, and unpacked into a folder that Python can
import from, which needs no index. A wheel is a zip file; what it installs next to other packages is
at its top or in `NAME.data/purelib` and `NAME.data/platlib`. Scripts and headers are not needed to
run a flow. The tags in its file name say whether it fits this interpreter and this machine.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from torvyn._artifact.lock import Lock
from torvyn._artifact.oci import invalid, too_large, unwritable
from torvyn._artifact.paths import check_path
from torvyn._artifact.precompiled import check_target
from torvyn._io.files import new_folder
from torvyn.errors import MissingError, TorvynError

REQUIREMENTS: Final = "requirements.txt"
_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "linux")
"""Gateways with Debian 10 or newer can load them."""


def requirement_files(folder: Path, components: Iterable[Path]) -> list[Path]:
    """The requirements of a project and of its components that run in the process."""
    homes = dict.fromkeys([folder, *components])
    return [home / REQUIREMENTS for home in homes if (home / REQUIREMENTS).is_file()]


def download(
    requirements: Sequence[Path], folder: Path, targets: Sequence[str], lock: Lock | None
) -> dict[str, Path]:
    """Downloads wheels into a folder: file name -> file. Versions that the lock file has are kept.

    Without targets, the wheels are for this machine.
    """
    constraints = folder / "constraints.txt"
    constraints.write_text(_constraints(lock))
    for target in targets or ("",):
        command = [sys.executable, "-m", "pip", "download", "--quiet"]
        command += ["--disable-pip-version-check", "--no-input", "--only-binary", ":all:"]
        command += ["--dest", str(folder), "--constraint", str(constraints), *_platform(target)]
        for file in requirements:
            command += ["--requirement", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise _failed(done.stderr)
    return {path.name: path for path in sorted(folder.glob("*.whl"))}


def _constraints(lock: Lock | None) -> str:
    wheels = lock.wheels if lock else ()
    names = [WheelName.parse(each.file.rpartition("/")[2]) for each in wheels]
    return "".join(sorted({f"{name.distribution}=={name.version}\n" for name in names}))


def _platform(target: str) -> list[str]:
    if not target:
        return []
    architecture = check_target(target).partition("-")[0]
    tags = [f"{name}_{architecture}" for name in _PLATFORMS]
    return [word for tag in tags for word in ("--platform", tag)]


def _failed(output: str) -> MissingError:
    lines = [line.removeprefix("ERROR: ") for line in output.splitlines() if "ERROR" in line]
    reason = " ".join(lines[-2:]) or output.strip()[-500:] or "pip gave no reason"
    message = f"the wheels cannot be downloaded: {reason}"
    hint = "`--update-lock` allows other versions than those in torvyn.lock"
    return MissingError("artifact.wheels-failed", message, hint=hint)


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


_OLD_NAMES: Final = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_GLIBC: Final = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")


@dataclass(frozen=True, slots=True)
class WheelName:
    """The parts of `numpy-2.4.1-cp311-cp311-manylinux_2_28_x86_64.whl`."""

    distribution: str
    """In lower case, with `-`."""
    version: str
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]

    @classmethod
    def parse(cls, file: str) -> WheelName:
        name, _, others = file.removesuffix(".whl").partition("-")
        version, *rest = others.split("-")
        if not file.endswith(".whl") or len(rest) not in (3, 4) or not name:
            raise invalid(f"`{file}` is not the name of a wheel")
        tags = [tuple(part.split(".")) for part in rest[-3:]]
        return cls(re.sub(r"[-_.]+", "-", name).lower(), version, *tags)

    def fits(self, machine: Machine) -> bool:
        return any(
            machine.runs(python, abi) and any(map(machine.loads, self.platforms))
            for python in self.pythons
            for abi in self.abis
        )


@dataclass(frozen=True, slots=True)
class Machine:
    python: tuple[int, int]
    architecture: str
    glibc: tuple[int, int] | None

    @classmethod
    def here(cls) -> Machine:
        return cls(sys.version_info[:2], platform.machine(), _glibc())

    def runs(self, python: str, abi: str) -> bool:
        major, minor = self.python
        own = f"cp{major}{minor}"
        if abi == "abi3":
            match = re.fullmatch(rf"cp{major}(\d+)", python)
            return match is not None and 2 <= int(match[1]) <= minor
        if abi == own:
            return python == own
        generic = {f"py{major}", own, *(f"py{major}{each}" for each in range(minor + 1))}
        return abi == "none" and python in generic

    def loads(self, tag: str) -> bool:
        if tag in ("any", f"linux_{self.architecture}"):
            return True
        match = _GLIBC.fullmatch(tag)
        needed = (int(match[1]), int(match[2])) if match else None
        architecture = match[3] if match else ""
        if match is None:
            name, _, architecture = tag.partition("_")
            needed = _OLD_NAMES.get(name)
        if needed is None or self.glibc is None:
            return False
        return architecture == self.architecture and needed <= self.glibc


def _glibc() -> tuple[int, int] | None:
    """The version of glibc; None on a machine with another C library."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError, AttributeError):
        return None
    match = re.match(r"glibc (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None
