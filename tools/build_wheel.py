"""Builds the wheel of torvyn, stripped, for every Python from 3.11 on, and prints its size.

    python tools/build_wheel.py FOLDER

A gateway installs it without a compiler. The wheel says when it was released: no right clock of a
gateway shows an earlier time. That is the time in SOURCE_DATE_EPOCH, else that of the last commit.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASED = "torvyn/_deploy/released.txt"


def build(folder: Path) -> Path:
    """The wheel; the folder may hold older ones."""
    maturin = Path(sys.executable).with_name("maturin")
    command = [str(maturin), "build", "--release", "--strip", "--quiet", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    wheel = max(folder.glob("torvyn-*.whl"), key=lambda path: path.stat().st_mtime)
    add_release_date(wheel, release_time_s())
    return wheel


def release_time_s() -> int:
    """The same for every build of one commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else int(time.time())


def add_release_date(wheel: Path, released_s: int) -> None:
    """Adds the file that `torvyn._deploy.trust` reads, and its line in RECORD."""
    data = f"{released_s}\n".encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    line = f"{RELEASED},sha256={digest},{len(data)}\n".encode()
    new = wheel.with_suffix(".new")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in old.infolist():
            is_record = entry.filename.endswith(".dist-info/RECORD")
            if is_record:
                # A RECORD is the last file of a wheel.
                made.writestr(zipfile.ZipInfo(RELEASED, entry.date_time), data)
            content = old.read(entry)
            made.writestr(entry, line + content if is_record else content)
    new.replace(wheel)


def describe(wheel: Path) -> str:
    """Its sizes, packed and installed."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    installed = sum(entry.file_size for entry in entries)
    native = sum(entry.file_size for entry in entries if entry.filename.endswith(".so"))
    return (
        f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, installed {installed / 1e6:.1f} MB, "
        f"of which {native / 1e6:.1f} MB is native code"
    )


def main() -> int:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist")
    print(describe(build(folder)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
