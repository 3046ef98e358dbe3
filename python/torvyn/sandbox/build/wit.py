"""WIT: the built-in packages as files, and the check of a project's own."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from torvyn import _native
from torvyn._native import NativeError
from torvyn.errors import Diagnostic, Location

_STREAMING: Final = "deps/torvyn-streaming/"
_COPIES: Final = ("torvyn-streaming/", f"0.2/{_STREAMING}", f"0.3/{_STREAMING}")
"""Where its files are needed besides, because a folder must resolve alone."""

_LOCATION = re.compile(r"-->\s*(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)")


def wit_files() -> dict[str, str]:
    """The path and text of every file of the built-in packages."""
    files = dict(_native.WasmTools.wit_files())
    shared = [(path, text) for path, text in files.items() if path.startswith(_STREAMING)]
    for copy in _COPIES:
        files |= {copy + path.removeprefix(_STREAMING): text for path, text in shared}
    return files


def check_wit(folders: Iterable[Path]) -> list[Diagnostic]:
    """The errors in the `wit` folders of a project's components, if they have one."""
    errors = []
    for folder in dict.fromkeys(folders):
        path = folder / "wit"
        if path.is_dir() and any(path.glob("*.wit")):
            try:
                _native.WasmTools.wit_worlds(path)
            except NativeError as error:
                errors.append(_diagnostic(path, str(error.args[1])))
    return errors


def _diagnostic(path: Path, output: str) -> Diagnostic:
    place = _LOCATION.search(output)
    location = Location(str(path))
    if place is not None:
        location = Location(place["file"], int(place["line"]), int(place["column"]))
    # Without the drawing of the line, because the diagnostic has a location.
    reason = output.partition("\n")[0].removeprefix(f"failed to parse package: {path}: ")
    return Diagnostic(
        "sandbox.wit-invalid", f"the contracts in `{path}` are not valid: {reason}", location
    )
