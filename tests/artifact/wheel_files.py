"""Wheels, made by hand."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str = "greeting",
    version: str = "1.0",
    *,
    tag: str = "py3-none-any",
    files: dict[str, str] | None = None,
    needs: str = "",
) -> Path:
    """A wheel with one module, `NAME.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needed = f"Requires-Dist: {needs}\n" if needs else ""
    content = files or {f"{name}.py": f'VERSION = "{version}"\n'}
    content |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in [*content, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(file), text)
    return path
