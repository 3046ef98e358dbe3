"""Every `sandbox.*` code, provoked by a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torvyn._native import NativeError
from torvyn._sandbox.audit import Audit
from torvyn._sandbox.build import _write, build
from torvyn._sandbox.c_guest import _encode_error
from torvyn._sandbox.compiler import compile_component
from torvyn._sandbox.project import GuestProject, check_wit, toolchain_missing
from torvyn._sandbox.python_guest import read_class
from torvyn.errors import LinkError

GUESTS = Path(__file__).parents[1] / "sandbox" / "guests"
EMPTY = b"\0asm\x0d\0\1\0"
"""A component without anything in it."""
FIVE_MEMORIES = b"\x01\x0d\0asm\1\0\0\0\5\3\1\0\1\x02\x10\5" + b"\0\0\0" * 5
"""A module with a memory, and five instances of it."""


def file(data: bytes) -> Callable[[Path], object]:
    def run(folder: Path) -> object:
        path = folder / "guest.wasm"
        path.write_bytes(data)
        return compile_component(path, "guest", folder / "cache")

    return run


def renamed(old: bytes, new: bytes) -> Callable[[Path], object]:
    return file((GUESTS / "printer.wasm").read_bytes().replace(old, new))


def bad_wit(folder: Path) -> object:
    (folder / "wit").mkdir()
    (folder / "wit" / "own.wit").write_text(
        "package mine:thing;\nworld w {\n  import nowhere;\n}\n"
    )
    raise LinkError.of(check_wit([folder]))


def source(language: str, name: str = "", text: str = "") -> Callable[[Path], object]:
    """The build of a folder with this one file."""

    def run(folder: Path) -> object:
        if name:
            (folder / name).write_text(text)
        guest = GuestProject("guest", folder, language)
        return read_class(guest) if language == "python" else build(guest)

    return run


def unwritable(folder: Path) -> None:
    (folder / "build").write_text("in the way")
    _write(GuestProject("guest", folder, "c").target, b"")


def missing(_: Path) -> None:
    raise toolchain_missing(GuestProject("guest", Path(), "c"), "ziglang", "c")


def unfit(_: Path) -> None:
    words = "module requires an import interface named `torvyn:streaming/buffer-allocator@0.1.0`"
    raise _encode_error(
        GuestProject("guest", Path(), "c"), NativeError("unfit", words, ["content-filter"])
    )


PROCESSOR = "import torvyn\nclass A(torvyn.Processor):\n    async def flush(self): ...\n"


def unwritable_audit(folder: Path) -> None:
    Audit("file", str(folder / "nowhere" / "audit"), "main", "1").open()


CASES = {
    "sandbox.audit-unwritable": unwritable_audit,
    "sandbox.wit-invalid": bad_wit,
    "sandbox.compile-failed": source("python", "component.py", "def ("),
    "sandbox.file-unwritable": unwritable,
    "sandbox.method-unsupported": source("python", "component.py", PROCESSOR),
    "sandbox.no-role": source("python", "component.py", "class A: ..."),
    "sandbox.source-missing": source(""),
    "sandbox.toolchain-missing": missing,
    "sandbox.unfit": unfit,
    "sandbox.invalid": file(b"not wasm"),
    "sandbox.contract": file(EMPTY),
    "sandbox.import": renamed(b"wasi:cli/stdout@0.2.0", b"wasi:cli/stduot@0.2.0"),
    "sandbox.too-complex": file(EMPTY + FIVE_MEMORIES),
}
