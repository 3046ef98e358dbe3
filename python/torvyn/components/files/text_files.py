"""Opens files for components, with errors that say what to do.

Raises `MissingError` for a missing file or folder. Never creates folders.
"""

from __future__ import annotations

import difflib
import os
from typing import BinaryIO

from torvyn.components.spec import Spec
from torvyn.errors import MissingError, os_reason


def open_to_read(spec: Spec, path: str) -> BinaryIO:
    """The file as a buffered binary stream."""
    place = os.path.expanduser(path)
    try:
        return open(place, "rb")
    except FileNotFoundError as error:
        raise MissingError(
            "components.file-missing",
            f"`{spec.name}`: {path} does not exist",
            hint=_near(place),
        ) from error
    except (OSError, ValueError) as error:
        raise MissingError(
            "components.file-unreadable", f"`{spec.name}`: cannot read {path}: {os_reason(error)}"
        ) from error


def open_to_append(spec: Spec, path: str, *, truncate: bool) -> int:
    """A file descriptor that appends."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    place = os.path.expanduser(path)
    try:
        return os.open(place, flags | (os.O_TRUNC if truncate else 0), 0o666)
    except FileNotFoundError as error:
        folder = os.path.dirname(place) or "."
        raise MissingError(
            "components.file-missing",
            f"`{spec.name}`: cannot write {path}: the folder {folder} does not exist",
            hint=f"create it: mkdir -p {folder}",
        ) from error
    except (OSError, ValueError) as error:
        raise MissingError(
            "components.file-unwritable", f"`{spec.name}`: cannot write {path}: {os_reason(error)}"
        ) from error


def _near(place: str) -> str | None:
    folder, name = os.path.split(place)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return f"the folder {folder} does not exist either"
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {os.path.join(folder, near[0])}?"
    return None if os.path.isabs(place) else f"relative paths start from {os.getcwd()}"
