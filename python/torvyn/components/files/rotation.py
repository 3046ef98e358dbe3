"""Where a log file went when it was rotated: renamed, or copied and truncated.

Rotated files are in the same folder, under the same name with a number or a date after it.
"""

from __future__ import annotations

import os
import re
from typing import Final

from torvyn.components.files.file_position import FilePosition

_SUFFIX: Final = re.compile(r"[.-]\d[\d.T:_-]*")


def find_rotated(path: str, position: FilePosition) -> list[str]:
    """The file of the position and those that were rotated after it, oldest first; empty if the
    file of the position is gone."""
    files = _rotated_files(path)
    # A copy has another inode but begins in the same way.
    for is_it in (FilePosition.is_same_file, FilePosition.matches):
        for number, file in enumerate(files):
            if is_it is FilePosition.matches and not position.prefix_bytes:
                continue
            if _holds(file, position, is_it is FilePosition.is_same_file):
                return files[number:]
    return []


def _rotated_files(path: str) -> list[str]:
    folder, name = os.path.split(path)
    files = []
    for entry in os.scandir(folder or "."):
        if entry.name.startswith(name) and _SUFFIX.fullmatch(entry.name[len(name) :]):
            files.append((entry.stat().st_mtime_ns, os.path.join(folder, entry.name)))
    return [file for _, file in sorted(files)]


def _holds(path: str, position: FilePosition, is_same: bool) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return position.is_same_file(descriptor) if is_same else position.matches(descriptor)
    finally:
        os.close(descriptor)
