"""Guests in Rust: a crate that `cargo` compiles for WebAssembly and that is encoded here.

The crate makes its bindings with `wit-bindgen`. `[package.metadata.torvyn]` in its `Cargo.toml` may
say the `unit` of its outputs and, for a router, its `ports`.
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
from torvyn.errors import ContractError, Diagnostic, Location, MissingError
from torvyn.sandbox.build import rust_wrapper
from torvyn.sandbox.build.project import ComponentBinary, GuestProject, display_path

TARGETS: Final = ("wasm32-wasip1", "wasm32-unknown-unknown")
"""The first that the toolchain has a standard library for; the second has no standard output."""

_CONTRACTS: Final = re.compile(r'path:\s*"([^"]+)"')
"""Where `generate!` finds its WIT, relative to the crate."""

_ALL: Final = "generate_all"
"""What recent versions of wit-bindgen ask for where a world imports another package."""


def toolchain(guest: GuestProject) -> str:
    version = _ask(guest, "--version", "--verbose")
    return f"{version} {_target(guest)}"


def inputs(guest: GuestProject) -> list[Path]:
    """Every file that may go into the component."""
    return [*guest.source_files, *_contracts(guest)]


def make(guest: GuestProject) -> ComponentBinary:
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
    named = {found for path in sources for found in _CONTRACTS.findall(path.read_text("utf-8"))}
    return sorted(file for name in named for file in (guest.folder / name).rglob("*.wit"))


def _ask(guest: GuestProject, *arguments: str) -> str:
    """What the compiler that cargo would run says of itself."""
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
        folder = _ask(guest, "--print", "target-libdir", "--target", target)
        if folder and any(Path(folder).glob("libstd-*.rlib")):
            return target
    raise _missing(guest, f"Rust's target `{TARGETS[0]}`", f"rustup target add {TARGETS[0]}")


def _missing(guest: GuestProject, what: str, remedy: str) -> MissingError:
    return MissingError(
        "sandbox.toolchain-missing",
        f"component `{guest.name}` needs {what} to be built, which is not installed",
        hint=f"{remedy}; it is not needed to run what was built",
    )


def _compile(guest: GuestProject, target: str) -> Path:
    done = _run_cargo(guest, target, {})
    if done.returncode != 0 and _ALL in done.stdout:
        with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
            done = _run_cargo(guest, target, _wrapping(Path(folder)))
    messages = list(_messages(done.stdout))
    if done.returncode != 0:
        raise _compile_errors(guest, messages, done.stderr)
    modules = _modules(messages, (guest.folder / "Cargo.toml").resolve())
    if len(modules) != 1:
        message = f"component `{guest.name}` is built to {len(modules)} WebAssembly modules, not 1"
        hint = 'its `Cargo.toml` has `[lib]` with `crate-type = ["cdylib"]`'
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


def _wrapping(folder: Path) -> dict[str, str]:
    """Lets `rust_wrapper` add `generate_all` where a `generate!` needs it and does not say so."""
    script = folder / "rustc"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {rust_wrapper.__file__} "$@"\n')
    script.chmod(0o755)
    return {"RUSTC_WORKSPACE_WRAPPER": str(script), rust_wrapper.FOLDER: str(folder)}


def _messages(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _modules(messages: list[dict[str, Any]], manifest: Path) -> list[Path]:
    """What was made of the crate itself, not of those it depends on."""
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
    """The compiler's errors, each at its place; cargo's output when it has none."""
    errors = [found for found in (_compile_error(guest, message) for message in messages) if found]
    if errors:
        return ContractError(errors[0].code, errors[0].message, diagnostics=errors)
    reason = output.strip() or "cargo gave no reason"
    message = f"component `{guest.name}` cannot be compiled: {reason}"
    return ContractError("sandbox.compile-failed", message)


def _compile_error(guest: GuestProject, message: dict[str, Any]) -> Diagnostic | None:
    found = message.get("message")
    if message.get("reason") != "compiler-message" or not isinstance(found, dict):
        return None
    places = [span for span in found.get("spans", ()) if span.get("is_primary")]
    if found.get("level") != "error" or not places:
        return None
    place = places[0]
    file = display_path(_source(guest, place["file_name"]))
    location = Location(file, place["line_start"], place["column_start"])
    words = str(found.get("message", ""))
    return Diagnostic("sandbox.compile-failed", words.partition("\n")[0], location)


def _source(guest: GuestProject, name: str) -> Path:
    """Names are relative to the crate's workspace, of which only the crate is known."""
    path = Path(name)
    for folder in (guest.folder, *guest.folder.resolve().parents):
        if (folder / path).is_file():
            return folder / path
    return path


def _notes(guest: GuestProject) -> Iterator[tuple[str, str]]:
    with (guest.folder / "Cargo.toml").open("rb") as file:
        said = tomllib.load(file).get("package", {}).get("metadata", {}).get("torvyn", {})
    if said.get("unit"):
        yield "unit", str(said["unit"])
    if said.get("ports"):
        yield "ports", ",".join(str(port) for port in said["ports"])


def _encode_error(guest: GuestProject, error: _native.NativeError) -> ContractError:
    kind, words, names = error.args
    if kind == "no-world":
        what = f"exports {', '.join(names)}" if names else "exports no interface of torvyn"
        hint = "`export!` one of the worlds of `wit/`, such as `content-filter`"
        return ContractError("sandbox.no-role", f"component `{guest.name}` {what}", hint=hint)
    message = f"component `{guest.name}` does not fit its role: {words}"
    return ContractError("sandbox.unfit", message)
