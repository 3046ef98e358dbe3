"""A project's own WIT: whether it resolves, with the place where it does not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from torvyn._native import NativeError, WasmTools
from torvyn.errors import Diagnostic, Location

_PLACE = re.compile(r"-->\s*(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)")


def check_wit(folders: Iterable[Path]) -> list[Diagnostic]:
    """What is wrong with the `wit` folders of a project's parts; parts without one are fine."""
    found = []
    for folder in dict.fromkeys(folders):
        path = folder / "wit"
        if path.is_dir() and any(path.glob("*.wit")):
            try:
                WasmTools.wit_worlds(path)
            except NativeError as error:
                found.append(_problem(path, str(error.args[1])))
    return found


def _problem(path: Path, said: str) -> Diagnostic:
    place = _PLACE.search(said)
    location = Location(str(path))
    if place is not None:
        location = Location(place["file"], int(place["line"]), int(place["column"]))
    # The tool draws the line with its place; the words alone are enough beside a location.
    words = said.partition("\n")[0].removeprefix(f"failed to parse package: {path}: ")
    return Diagnostic(
        "sandbox.wit-invalid", f"the contracts in `{path}` do not resolve: {words}", location
    )
