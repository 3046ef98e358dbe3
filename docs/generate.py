"""Generates the pages of docs/reference from the code; `--check` lists those out of date.

A page renders a table that the program itself uses, so it cannot be wrong. Do not edit
docs/reference by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

import reference_grpc
import reference_protocol
import reference_python
import reference_tables
import reference_text

FOLDER: Final = Path(__file__).parent / "reference"

PAGES: Final[dict[str, Callable[[], str]]] = {
    "manifest.md": reference_tables.manifest_page,
    "components.md": reference_tables.components_page,
    "errors.md": reference_tables.errors_page,
    "command-line.md": reference_tables.command_line_page,
    "python.md": reference_python.python_page,
    "engine.md": reference_python.engine_page,
    "client.md": reference_python.client_page,
    "testing.md": reference_python.testing_page,
    "protocol.md": reference_protocol.protocol_page,
    "text.md": reference_text.text_page,
    "grpc.md": reference_grpc.grpc_page,
}


def render() -> dict[str, str]:
    """Every generated page, by file name."""
    return {name: page().rstrip("\n") + "\n" for name, page in PAGES.items()}


def stale() -> list[str]:
    """The pages that differ from the code, and the files that it does not generate."""
    pages = render()
    files = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    return sorted(name for name in {*pages, *files} if pages.get(name) != files.get(name))


def main(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--check"]:
        names = stale()
        for name in names:
            print(f"docs/reference/{name} is out of date: run `make docs`", file=sys.stderr)
        return 1 if names else 0
    if arguments:
        print("usage: python docs/generate.py [--check]", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name, text in render().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
