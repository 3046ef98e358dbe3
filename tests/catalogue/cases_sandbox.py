"""Every `sandbox.*` code, provoked by a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torvyn.errors import LinkError
from torvyn.sandbox.compiling import compile_component
from torvyn.sandbox.contracts import check_wit

GUESTS = Path(__file__).parents[1] / "sandbox" / "guests"
EMPTY = b"\0asm\x0d\0\1\0"
"""A component without anything in it."""


def file(data: bytes) -> Callable[[Path], object]:
    def run(folder: Path) -> object:
        path = folder / "guest.wasm"
        path.write_bytes(data)
        return compile_component(path, "guest", folder / "cache")

    return run


def renamed(old: bytes, new: bytes) -> Callable[[Path], object]:
    return file((GUESTS / "printer.wasm").read_bytes().replace(old, new))


def open_key(folder: Path) -> object:
    file((GUESTS / "filter.wasm").read_bytes())(folder)
    (folder / "cache" / "key").chmod(0o644)
    return compile_component(GUESTS / "sink.wasm", "sink", folder / "cache")


def bad_wit(folder: Path) -> object:
    (folder / "wit").mkdir()
    (folder / "wit" / "own.wit").write_text(
        "package mine:thing;\nworld w {\n  import nowhere;\n}\n"
    )
    raise LinkError.of(check_wit([folder]))


CASES = {
    "sandbox.wit-invalid": bad_wit,
    "sandbox.invalid": file(b"not wasm"),
    "sandbox.contract": file(EMPTY),
    "sandbox.import": renamed(b"wasi:cli/stdout@0.2.0", b"wasi:cli/stduot@0.2.0"),
    "sandbox.cache": open_key,
}
