"""Replaces rustc for a crate whose bindings need `generate_all`.

Gives the crate `rust/generate_all.rs` as `wit_bindgen`: the same library with that option added.
Changes neither the crate's files nor its dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

FOLDER: Final = "TORVYN_RUST_WRAPPER_DIR"
"""The variable with the path of a temporary folder for the compiled library."""

_LIBRARY: Final = "wit_bindgen="
_SOURCE: Final = Path(__file__).parent / "rust" / "generate_all.rs"


def main(arguments: list[str]) -> int:
    rustc, *options = arguments
    for at, option in enumerate(options):
        if options[at - 1] == "--extern" and option.startswith(_LIBRARY):
            output = Path(os.environ[FOLDER]) / "libwit_bindgen.rlib"
            command = [
                rustc,
                *_command(option.removeprefix(_LIBRARY), output),
                *_search_options(options),
            ]
            code = subprocess.run(command, check=False).returncode
            if code != 0:
                return code
            options[at] = f"{_LIBRARY}{output}"
    return subprocess.run([rustc, *options], check=False).returncode


def _command(library: str, output: Path) -> list[str]:
    return [
        *("--crate-name", "wit_bindgen", "--edition", "2021", "--crate-type", "rlib"),
        *("--extern", f"bindings={library}", "-C", "metadata=torvyn", "-C", "panic=abort"),
        *("-o", str(output), str(_SOURCE)),
    ]


def _search_options(options: list[str]) -> Iterator[str]:
    """The library search paths and the target."""
    for option, value in pairwise(options):
        if option in ("-L", "--target"):
            yield from (option, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
