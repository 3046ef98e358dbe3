"""Checks a project's own WIT files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from torvyn import _native
from torvyn._native import NativeError
from torvyn.errors import Diagnostic, Location

_LOCATION = re.compile(r"-->\s*(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)")


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
