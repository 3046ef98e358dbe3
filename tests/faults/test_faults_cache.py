"""Compiled code that the cache did not write is never loaded, whoever put it there and how."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import GUESTS

from torvyn._native import CompiledComponent, SandboxError

WASM = GUESTS["filter"].read_bytes()
OTHER = GUESTS["sink"].read_bytes()


def entries(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.name != "key"]


def compiled(cache: Path, wasm: bytes = WASM) -> Path:
    """The entry of a component that was just compiled."""
    before = set(entries(cache)) if cache.exists() else set()
    CompiledComponent(wasm, cache)
    (entry,) = set(entries(cache)) - before
    return entry


def flipped(entry: Path, cache: Path) -> None:
    code = bytearray(entry.read_bytes())
    code[len(code) // 2] ^= 1
    entry.write_bytes(code)


def truncated(entry: Path, cache: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:1000])


def of_another_component(entry: Path, cache: Path) -> None:
    shutil.copy(compiled(cache, OTHER), entry)


def of_another_cache(entry: Path, cache: Path) -> None:
    shutil.copy(compiled(cache.with_name("theirs")), entry)


def linked_elsewhere(entry: Path, cache: Path) -> None:
    theirs = compiled(cache.with_name("theirs"))
    entry.unlink()
    entry.symlink_to(theirs)


def a_folder(entry: Path, cache: Path) -> None:
    entry.unlink()
    entry.mkdir()


def a_pipe(entry: Path, cache: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def endless(entry: Path, cache: Path) -> None:
    os.truncate(entry, 1 << 40)


@pytest.mark.parametrize(
    "poison",
    [flipped, truncated, of_another_component, of_another_cache, linked_elsewhere, a_pipe, endless],
)
def test_a_poisoned_entry_is_compiled_anew(
    tmp_path: Path, poison: Callable[[Path, Path], None]
) -> None:
    cache = tmp_path / "mine"
    poison(compiled(cache), cache)

    assert CompiledComponent(WASM, cache).cache == "refused"
    assert CompiledComponent(WASM, cache).cache == "hit"


def test_an_entry_that_is_a_folder_is_not_loaded(tmp_path: Path) -> None:
    cache = tmp_path / "mine"
    a_folder(compiled(cache), cache)

    with pytest.raises(SandboxError, match="directory"):
        CompiledComponent(WASM, cache)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    compiled(tmp_path / "mine")
    (tmp_path / "mine" / "key").chmod(0o640)

    with pytest.raises(SandboxError, match="can be read by others"):
        CompiledComponent(WASM, tmp_path / "mine")


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: only root can give a file away")
def test_a_key_that_somebody_else_put_there_is_refused(tmp_path: Path) -> None:
    compiled(tmp_path / "mine")
    os.chown(tmp_path / "mine" / "key", 12345, 12345)

    with pytest.raises(SandboxError, match="belongs to somebody else"):
        CompiledComponent(WASM, tmp_path / "mine")


def test_a_folder_that_everybody_writes_is_refused(tmp_path: Path) -> None:
    cache = tmp_path / "mine"
    compiled(cache)
    cache.chmod(0o777)

    with pytest.raises(SandboxError, match="everybody may write"):
        CompiledComponent(WASM, cache)
