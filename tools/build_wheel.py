"""Builds the wheel of torvyn, stripped, for every Python from 3.11 on, and prints its size.

    python tools/build_wheel.py FOLDER

A gateway installs it without a compiler.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def build(folder: Path) -> Path:
    """The wheel; the folder may hold older ones."""
    maturin = Path(sys.executable).with_name("maturin")
    command = [str(maturin), "build", "--release", "--strip", "--quiet", "--out", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return max(folder.glob("torvyn-*.whl"), key=lambda path: path.stat().st_mtime)


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
