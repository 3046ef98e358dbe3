"""Guests in Python: componentize-py bundles their files with `torvyn._contract` and an adapter.

A build takes seconds and gives 18 MB, most of it the interpreter.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from torvyn import _native
from torvyn.errors import ContractError
from torvyn.sandbox.build.class_source import ClassSource, imported_modules, read_class
from torvyn.sandbox.build.project import ComponentBinary, GuestProject, toolchain_missing

PACKAGE: Final = Path(__file__).parents[2]

CONTRACT: Final = (
    "__init__.py",
    "_lazy.py",
    "errors.py",
    "typing.py",
    "_contract",
    "sandbox/__init__.py",
    "sandbox/guest",
)
"""The parts of this package that a guest contains."""

APP: Final = "torvyn_app"

WORLDS: Final = {
    "source": ("polled-data-source", "torvyn:streaming/polled-source@0.2.0"),
    "processor": ("expanding-transform", "torvyn:streaming/expander@0.2.0"),
    "filter": ("content-guard", "torvyn:filtering/guard@0.2.0"),
    "router": ("content-router", "torvyn:filtering/router@0.1.0"),
    "aggregator": ("stream-aggregator", "torvyn:aggregation/aggregator@0.1.0"),
    "sink": ("data-sink", "torvyn:streaming/sink@0.1.0"),
}
"""Role -> the name of its world and the interface it exports."""

BATCHES: Final = {
    "processor": "BatchProcessor",
    "filter": "BatchFilter",
    "aggregator": "BatchAggregator",
    "sink": "BatchSink",
}
"""Role -> the class with its batch function. A source has none, because it may wait."""

ENCODINGS: Final = (
    "ascii",
    "cp1252",
    "idna",
    "latin_1",
    "punycode",
    "utf_16",
    "utf_16_be",
    "utf_16_le",
    "utf_32",
    "utf_32_be",
    "utf_32_le",
    "utf_8_sig",
)
"""Imported at build time, because a guest has no disk to load codecs from later. Connecting to a
host by name needs `idna`."""

_WORLD: Final = """package torvyn:components@0.2.0;

world python-guest {{
    import torvyn:streaming/types@0.1.0;
    import torvyn:streaming/buffer-allocator@0.1.0;
    import torvyn:streaming/details@0.2.0;
    export torvyn:streaming/lifecycle@0.1.0;
{exports}}}
"""
"""A Python guest of any role imports `details`, for attributes and ends."""


def toolchain(guest: GuestProject) -> str:
    if importlib.util.find_spec("componentize_py") is None:
        raise toolchain_missing(guest, "componentize-py", "python-guest")
    return f"componentize-py {importlib.metadata.version('componentize-py')}"


def inputs(guest: GuestProject) -> list[Path]:
    """Every file that can affect the component."""
    return [*contract_files(), *guest.source_files]


def build_component(guest: GuestProject) -> ComponentBinary:
    source = read_class(guest)
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        root = Path(folder)
        _stage(guest, source, root / "app")
        write_contracts(root / "wit", [source.role], _optional(source))
        component = componentize(guest, root)
    notes = {"unit": source.unit, "config": source.config_kind, "ports": ",".join(source.ports)}
    for name, text in notes.items():
        if text:
            component = _native.WasmTools.annotate(component, name, text)
    return ComponentBinary(component, WORLDS[source.role][0])


def contract_files() -> list[Path]:
    files: list[Path] = []
    for name in CONTRACT:
        path = PACKAGE / name
        files += path.glob("*.py") if path.is_dir() else [path]
    return sorted(files)


def copy_contract(app: Path) -> None:
    _copy(PACKAGE.parent, contract_files(), app)


def _copy(folder: Path, files: Iterable[Path], app: Path) -> None:
    for file in files:
        target = app / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _stage(guest: GuestProject, source: ClassSource, app: Path) -> None:
    copy_contract(app)
    _copy(guest.folder, guest.source_files, app)
    (app / f"{APP}.py").write_text(
        _app(source, imported_modules(guest.source_files)), encoding="utf-8"
    )


def _app(source: ClassSource, modules: set[str]) -> str:
    """The main module. The guest can use only what this module imports."""
    lines = ["import contextlib"]
    for module in sorted(modules | {f"encodings.{name}" for name in ENCODINGS}):
        lines += ["with contextlib.suppress(ImportError):", f"    import {module}"]
    return "\n".join(
        [
            *lines,
            f"from {source.module} import {source.name}",
            "from torvyn.sandbox.guest import adapter",
            f"from torvyn.sandbox.guest.as_{source.role} import *",
            f"adapter.component_class = {source.name}",
            *_optional_lines(source),
            "",
        ]
    )


def _optional(source: ClassSource) -> list[str]:
    """The interfaces of 0.3.0 that the guest exports."""
    names = [f"batch-{source.role}"] if source.role in BATCHES else []
    names += ["state"] if source.has_state else []
    return [f"torvyn:streaming/{name}@0.3.0" for name in names]


def _optional_lines(source: ClassSource) -> list[str]:
    lines = []
    if source.role in BATCHES:
        lines = [
            "from torvyn.sandbox.guest import batches",
            f"from wit_world.exports import batch_{source.role} as _wire",
            "batches.wire = _wire",
            f"from torvyn.sandbox.guest.batches import {BATCHES[source.role]}",
        ]
    if source.has_state:
        lines.append("from torvyn.sandbox.guest.state import State")
    return lines


def write_contracts(folder: Path, roles: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Writes the built-in WIT into a self-contained folder, with a world for these roles."""
    for path, text in _native.WasmTools.wit_files():
        relative = path.removeprefix("0.2/").removeprefix("0.3/")
        if relative.startswith("deps/"):
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    names = [*(WORLDS[role][1] for role in roles), *optional]
    exports = "".join(f"    export {name};\n" for name in names)
    (folder / "world.wit").write_text(_WORLD.format(exports=exports), encoding="utf-8")


def componentize(guest: GuestProject, root: Path) -> bytes:
    target = root / "component.wasm"
    script = "import sys, componentize_py; sys.exit(componentize_py.script())"
    command = [sys.executable, "-c", script, "--quiet"]
    command += ["-d", str(root / "wit"), "-w", "python-guest"]
    command += ["componentize", "-p", str(root / "app"), APP, "-o", str(target)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode != 0 or not target.is_file():
        raise _build_error(guest, done.stdout + done.stderr)
    return target.read_bytes()


def _build_error(guest: GuestProject, text: str) -> ContractError:
    """The error with the last line of the traceback."""
    reasons = re.findall(r"^\s*(\w+(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    reason = reasons[-1] if reasons else text.strip() or "componentize-py gave no reason"
    return ContractError(
        "sandbox.compile-failed",
        f"cannot build component `{guest.name}`: {reason}",
        hint="every module that it imports must be installed and be pure Python",
    )
