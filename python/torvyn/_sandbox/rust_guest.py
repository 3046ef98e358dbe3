"""Guests in Rust: `cargo` compiles a crate, and this module encodes the result as a component.

The crate generates its bindings with `wit-bindgen`. `[package.metadata.torvyn]` in `Cargo.toml` may
define the `unit` of its outputs, the `config` that it takes and, for a router, its `ports`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from torvyn import _native
from torvyn._sandbox import rustc_wrapper
from torvyn._sandbox.project import ComponentBinary, GuestProject, display_path
from torvyn.errors import ContractError, Diagnostic, Location, MissingError

TARGETS: Final = ("wasm32-wasip1", "wasm32-unknown-unknown")
"""Uses the first one whose standard library is installed; the second has no standard output."""

_CONTRACTS: Final = re.compile(r'path:\s*"([^"]+)"')
"""The path of the WIT in `generate!`, relative to the crate."""

_GENERATE_ALL: Final = "generate_all"
"""The option that recent versions of wit-bindgen need when a world imports another package."""


def toolchain(guest: GuestProject) -> str:
    version = _rustc(guest, "--version", "--verbose")
    return f"{version} {_target(guest)}"


def inputs(guest: GuestProject) -> list[Path]:
    """Every file that can affect the component."""
    return [*guest.source_files, *_contracts(guest)]


def build_component(guest: GuestProject) -> ComponentBinary:
    module = _compile(guest, _target(guest))
    try:
        component, world = _native.WasmTools.encode(module.read_bytes())
    except _native.NativeError as error:
        raise _encode_error(guest, error) from error
    for name, text in _notes(guest):
        component = _native.WasmTools.annotate(component, name, text)
    return ComponentBinary(component, world)


def _contracts(guest: GuestProject) -> list[Path]:
    sources = (path for path in guest.source_files if path.suffix == ".rs")
    names = {name for path in sources for name in _CONTRACTS.findall(path.read_text("utf-8"))}
    return sorted(file for name in names for file in (guest.folder / name).rglob("*.wit"))


def _rustc(guest: GuestProject, *arguments: str) -> str:
    """The output of the rustc that cargo would run; empty if it fails."""
    compiler = os.environ.get("RUSTC") or shutil.which("rustc")
    if compiler is None or shutil.which(_cargo()) is None:
        raise _missing(guest, "`cargo`", "install Rust (https://rustup.rs)")
    done = subprocess.run(
        [compiler, *arguments], capture_output=True, text=True, check=False, cwd=guest.folder
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _cargo() -> str:
    return os.environ.get("CARGO") or "cargo"


def _target(guest: GuestProject) -> str:
    for target in TARGETS:
        folder = _rustc(guest, "--print", "target-libdir", "--target", target)
        if folder and any(Path(folder).glob("libstd-*.rlib")):
            return target
    raise _missing(guest, f"Rust's target `{TARGETS[0]}`", f"rustup target add {TARGETS[0]}")


def _missing(guest: GuestProject, tool: str, remedy: str) -> MissingError:
    return MissingError(
        "sandbox.toolchain-missing",
        f"building component `{guest.name}` needs {tool}, which is not installed",
        hint=f"{remedy}; you need it only to build",
    )


def _compile(guest: GuestProject, target: str) -> Path:
    done = _run_cargo(guest, target, {})
    if done.returncode != 0 and _GENERATE_ALL in done.stdout:
        with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
            done = _run_cargo(guest, target, _wrapper_variables(Path(folder)))
    messages = list(_messages(done.stdout))
    if done.returncode != 0:
        raise _compile_errors(guest, messages, done.stderr)
    modules = _modules(messages, (guest.folder / "Cargo.toml").resolve())
    if len(modules) != 1:
        message = f"component `{guest.name}` compiles to {len(modules)} WebAssembly modules, not 1"
        hint = 'set `crate-type = ["cdylib"]` under `[lib]` in its `Cargo.toml`'
        raise ContractError("sandbox.compile-failed", message, hint=hint)
    return modules[0]


def _run_cargo(
    guest: GuestProject, target: str, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    manifest = (guest.folder / "Cargo.toml").resolve()
    command = [_cargo(), "build", "--release", "--target", target, "--manifest-path", str(manifest)]
    return subprocess.run(
        [*command, "--message-format", "json"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=guest.folder,
        env={**os.environ, "CARGO_TERM_COLOR": "never", **variables},
    )


def _wrapper_variables(folder: Path) -> dict[str, str]:
    """The variables that make `rust_wrapper` add `generate_all` to a `generate!` that lacks it."""
    script = folder / "rustc"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {rustc_wrapper.__file__} "$@"\n')
    script.chmod(0o755)
    return {"RUSTC_WORKSPACE_WRAPPER": str(script), rustc_wrapper.FOLDER: str(folder)}


def _messages(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _modules(messages: list[dict[str, Any]], manifest: Path) -> list[Path]:
    """The modules of the crate itself, not of its dependencies."""
    return [
        Path(file)
        for message in messages
        if message.get("reason") == "compiler-artifact"
        and Path(message.get("manifest_path", "")) == manifest
        for file in message.get("filenames", ())
        if file.endswith(".wasm")
    ]


def _compile_errors(
    guest: GuestProject, messages: list[dict[str, Any]], output: str
) -> ContractError:
    """The compiler's errors with their locations, or cargo's output if it reported none."""
    errors = [error for message in messages if (error := _compile_error(guest, message))]
    if errors:
        return ContractError(errors[0].code, errors[0].message, diagnostics=errors)
    reason = output.strip() or "cargo gave no reason"
    message = f"cannot compile component `{guest.name}`: {reason}"
    return ContractError("sandbox.compile-failed", message)


def _compile_error(guest: GuestProject, message: dict[str, Any]) -> Diagnostic | None:
    details = message.get("message")
    if message.get("reason") != "compiler-message" or not isinstance(details, dict):
        return None
    spans = [span for span in details.get("spans", ()) if span.get("is_primary")]
    if details.get("level") != "error" or not spans:
        return None
    span = spans[0]
    file = display_path(_source(guest, span["file_name"]))
    location = Location(file, span["line_start"], span["column_start"])
    text = str(details.get("message", ""))
    return Diagnostic("sandbox.compile-failed", text.partition("\n")[0], location)


def _source(guest: GuestProject, name: str) -> Path:
    """Resolves a name, which is relative to the crate's workspace, wherever that is."""
    path = Path(name)
    for folder in (guest.folder, *guest.folder.resolve().parents):
        if (folder / path).is_file():
            return folder / path
    return path


def _notes(guest: GuestProject) -> Iterator[tuple[str, str]]:
    with (guest.folder / "Cargo.toml").open("rb") as file:
        notes = tomllib.load(file).get("package", {}).get("metadata", {}).get("torvyn", {})
    if notes.get("unit"):
        yield "unit", str(notes["unit"])
    if notes.get("config"):
        yield "config", str(notes["config"])
    if notes.get("ports"):
        yield "ports", ",".join(str(port) for port in notes["ports"])


def _encode_error(guest: GuestProject, error: _native.NativeError) -> ContractError:
    kind, reason, names = error.args
    if kind == "no-world":
        exports = ", ".join(names) or "no Torvyn interface"
        hint = "`export!` one of the worlds in `wit/`, such as `content-filter`"
        message = f"component `{guest.name}` exports {exports}"
        return ContractError("sandbox.no-role", message, hint=hint)
    message = f"component `{guest.name}` does not match its role: {reason}"
    return ContractError("sandbox.unfit", message)
