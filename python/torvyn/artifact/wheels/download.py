"""Downloads the wheels that a project needs with pip, for this machine or for others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from torvyn.artifact.lock import Lock
from torvyn.artifact.precompiled import check_target
from torvyn.artifact.wheels.tags import WheelName
from torvyn.errors import MissingError

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
