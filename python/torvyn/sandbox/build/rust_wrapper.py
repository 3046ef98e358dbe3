"""What cargo runs in the place of rustc, for a crate whose bindings need `generate_all`.

The crate gets `rust/generate_all.rs` for `wit_bindgen`, which is the library it asked for with that
option added. Neither its files nor its dependencies are changed.
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
"""The variable that names a folder for what is compiled here; it goes when the build is over."""

_LIBRARY: Final = "wit_bindgen="
_SOURCE: Final = Path(__file__).parent / "rust" / "generate_all.rs"


def main(arguments: list[str]) -> int:
    rustc, *options = arguments
    for at, option in enumerate(options):
        if options[at - 1] == "--extern" and option.startswith(_LIBRARY):
            made = Path(os.environ[FOLDER]) / "libwit_bindgen.rlib"
            command = [rustc, *_command(option.removeprefix(_LIBRARY), made), *_kept(options)]
            code = subprocess.run(command, check=False).returncode
            if code != 0:
                return code
            options[at] = f"{_LIBRARY}{made}"
    return subprocess.run([rustc, *options], check=False).returncode


def _command(library: str, made: Path) -> list[str]:
    return [
        *("--crate-name", "wit_bindgen", "--edition", "2021", "--crate-type", "rlib"),
        *("--extern", f"bindings={library}", "-C", "metadata=torvyn", "-C", "panic=abort"),
        *("-o", str(made), str(_SOURCE)),
    ]


def _kept(options: list[str]) -> Iterator[str]:
    """Where libraries are, and what they are for."""
    for option, value in pairwise(options):
        if option in ("-L", "--target"):
            yield from (option, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
