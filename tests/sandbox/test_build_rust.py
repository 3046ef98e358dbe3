"""Rust guests: builds with cargo, and build errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rust_toolchain
import torvyn
from toolchains import needs_rust
from torvyn._sandbox.build import build
from torvyn._sandbox.component import guest_class
from torvyn._sandbox.project import GuestProject, detect_language
from torvyn._sandbox.rust_guest import TARGETS
from torvyn.errors import ContractError, MissingError

NEWER = "0.63"
"""A version of wit-bindgen that needs `generate_all`; the example uses one that does not."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in (rust_toolchain.variables() or {}).items():
        monkeypatch.setenv(name, value)
    ignored = shutil.ignore_patterns("build", "target")
    folder = tmp_path / "project"
    shutil.copytree(rust_toolchain.EXAMPLE, folder, symlinks=True, ignore=ignored)
    return folder


def crate(project: Path, name: str = "content-filter") -> GuestProject:
    return GuestProject(name, project / "components" / name, "rust")


def test_a_folder_with_a_crate_is_in_rust(project: Path) -> None:
    assert detect_language(project / "components" / "content-filter") == "rust"


@needs_rust
def test_a_crate_is_built_once_and_filters(project: Path, tmp_path: Path) -> None:
    first, second = build(crate(project)), build(crate(project))

    assert (first.world, first.was_built, second.was_built) == ("content-filter", True, False)
    component = guest_class(first.path, "content-filter", tmp_path / "cache")()
    component.config = "bad, worse"
    assert list(torvyn.Flow(["a", " bad", "worse ", "b"], component).text()) == ["a", "b"]


@needs_rust
def test_a_change_of_the_contracts_is_a_change_of_the_component(project: Path) -> None:
    build(crate(project))
    world = project / "wit" / "worlds.wit"
    world.write_text(world.read_text() + "\n// changed\n")

    assert build(crate(project)).was_built


@needs_rust
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["token-source", "content-filter", "sentence-aggregator"])
def test_bindings_need_no_generate_all_with_a_newer_generator(project: Path, name: str) -> None:
    workspace = project / "Cargo.toml"
    workspace.write_text(workspace.read_text().replace('"0.26"', f'"{NEWER}"'))
    (project / "Cargo.lock").unlink()

    built = build(crate(project, name))

    assert "generate_all" not in (built.guest.folder / "src" / "lib.rs").read_text()
    assert built.path.read_bytes()[:4] == b"\0asm"


@needs_rust
def test_an_error_of_the_compiler_has_its_place(project: Path) -> None:
    source = project / "components" / "content-filter" / "src" / "lib.rs"
    lines = source.read_text().count("\n")
    source.write_text(source.read_text() + "fn wrong() -> u32 { true }\n")

    with pytest.raises(ContractError) as caught:
        build(crate(project))

    found = caught.value.diagnostics[0]
    assert (found.code, found.message) == ("sandbox.compile-failed", "mismatched types")
    assert found.location is not None
    assert (found.location.line, found.location.column) == (lines + 1, 21)
    assert str(found.location.file).endswith("src/lib.rs")


@needs_rust
def test_a_crate_that_is_no_library_for_others_is_refused(project: Path) -> None:
    manifest = project / "components" / "content-filter" / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace('"cdylib"', '"rlib"'))

    with pytest.raises(ContractError, match="0 WebAssembly modules") as caught:
        build(crate(project))

    assert "cdylib" in str(caught.value.hint)


def test_a_toolchain_without_the_target_is_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "rustc"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("RUSTC", str(compiler))

    with pytest.raises(MissingError, match=f"Rust's target `{TARGETS[0]}`") as caught:
        build(crate(project))

    assert f"rustup target add {TARGETS[0]}" in str(caught.value.hint)


def test_a_machine_without_cargo_is_told_so(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("RUSTC", raising=False)

    with pytest.raises(MissingError, match="needs `cargo`"):
        build(crate(project))
