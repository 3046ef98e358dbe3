"""Installs extras and groups of packages for development, which are lists in `pyproject.toml`.

    python tools/install.py tests tests-alone
    python tools/install.py serve

A group whose name ends in `-alone` is installed without the dependencies of its packages. uv takes
a fraction of pip's time; pip does it where uv cannot, for example because only pip is told where
the packages are. Uses only the standard library, because it runs before anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
PIP: Final = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
UV: Final = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
_NEVER_COMPILED: Final = ["--only-binary", "xllamacpp"]
"""Its source is all of llama.cpp."""
_ALONE: Final = "-alone"


def groups_of(pyproject: Path = ROOT / "pyproject.toml") -> dict[str, list[Any]]:
    table = tomllib.loads(pyproject.read_text())
    return {**table["project"]["optional-dependencies"], **table["dependency-groups"]}


def requirements(groups: Mapping[str, list[Any]], name: str) -> list[str]:
    """The requirements of a group, with those of the groups that it includes."""
    found: list[str] = []
    for each in groups[name]:
        found += [each] if isinstance(each, str) else requirements(groups, each["include-group"])
    return found


def options(groups: Mapping[str, list[Any]], name: str) -> list[str]:
    """What follows the name of either installer."""
    alone = ["--no-deps"] if name.endswith(_ALONE) else []
    return [*_NEVER_COMPILED, *alone, *requirements(groups, name)]


def install(arguments: Sequence[str]) -> int:
    """The exit code of the installer that came last."""
    if subprocess.run([*PIP, "uv"], check=False).returncode == 0:
        if subprocess.run([*UV, *arguments], check=False).returncode == 0:
            return 0
        print("uv could not install everything: pip tries it", file=sys.stderr)
    return subprocess.run([*PIP, *arguments], check=False).returncode


def main(names: Sequence[str]) -> int:
    groups = groups_of()
    if unknown := [name for name in names if name not in groups]:
        print(
            f"no such group: {', '.join(unknown)}; there are {', '.join(groups)}", file=sys.stderr
        )
        return 2
    for name in names:
        if code := install(options(groups, name)):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
