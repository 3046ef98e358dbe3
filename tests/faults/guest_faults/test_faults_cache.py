"""Compiled code that the cache did not write is never loaded, and no cache stops a flow."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty import GUESTS, Apart

from torvyn._native import CompiledComponent
from torvyn._sandbox import compiler

FILTER, SINK = GUESTS["filter"], GUESTS["sink"]


def entries(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.name != "key"]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was compiled before, and nobody was warned."""
    compiler._compiled.cache_clear()
    monkeypatch.setattr(compiler, "_warned", set())


def compiled(cache: Path, file: Path = FILTER) -> Path:
    """The entry of a component that was just compiled."""
    before = set(entries(cache)) if cache.exists() else set()
    compiler._compiled.cache_clear()
    compiler.compile_component(file, "guest", cache)
    (entry,) = set(entries(cache)) - before
    return entry


def is_loaded(cache: Path) -> bool:
    return CompiledComponent.load(FILTER.read_bytes(), cache) is not None


def flipped(entry: Path, cache: Path) -> None:
    code = bytearray(entry.read_bytes())
    code[len(code) // 2] ^= 1
    entry.write_bytes(code)


def truncated(entry: Path, cache: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:1000])


def of_another_component(entry: Path, cache: Path) -> None:
    shutil.copy(compiled(cache, SINK), entry)


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

    assert not is_loaded(cache)
    compiler._compiled.cache_clear()
    compiler.compile_component(FILTER, "guest", cache)
    assert is_loaded(cache)


def an_empty_key(cache: Path) -> None:
    compiled(cache)
    (cache / "key").write_bytes(b"")


def a_key_that_others_read(cache: Path) -> None:
    compiled(cache)
    (cache / "key").chmod(0o640)


def a_key_of_somebody_else(cache: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    compiled(cache)
    os.chown(cache / "key", 12345, 12345)


def a_folder_that_everybody_writes(cache: Path) -> None:
    compiled(cache)
    cache.chmod(0o777)


def a_file_in_its_place(cache: Path) -> None:
    cache.write_text("in the way")


def a_folder_in_an_entrys_place(cache: Path) -> None:
    a_folder(compiled(cache), cache)


UNUSABLE = {
    an_empty_key: "key` holds 0 bytes, not 32",
    a_key_that_others_read: "is readable by users other than its owner",
    a_key_of_somebody_else: "belongs to another user",
    a_folder_that_everybody_writes: "is writable by everybody",
    a_file_in_its_place: "File exists",
    a_folder_in_an_entrys_place: "Is a directory",
}


@pytest.mark.parametrize("make", UNUSABLE)
def test_an_unusable_cache_is_a_warning_and_the_component_loads(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "mine"
    make(cache)
    compiler._compiled.cache_clear()

    with caplog.at_level(logging.WARNING, "torvyn.sandbox"):
        for file in (FILTER, SINK):
            assert compiler.compile_component(file, "guest", cache).cache == "miss"

    (warning,) = caplog.messages
    assert UNUSABLE[make] in warning
    assert f"cannot cache compiled components in `{cache}`" in warning


FULL = """
import logging, resource
from torvyn._sandbox.compiler import compile_component
said = []
logging.getLogger("torvyn.sandbox").addHandler(
    type("H", (logging.Handler,), {"emit": lambda self, record: said.append(record.getMessage())})()
)
cache, how = Path(sys.argv[1]), sys.argv[2]
if how == "full":
    # Nobody may write a file past this size, as if the disk had no more room.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
elif os.geteuid() == 0:
    # Root writes whatever a folder's mode says, but not here.
    cache = Path("/sys/torvyn")
else:
    cache.mkdir(mode=0o500)
got = [compile_component(Path(file), "guest", cache).cache for file in sys.argv[3:]]
left = sorted(path.name for path in cache.iterdir()) if how == "full" else []
answer({"got": got, "said": said, "left": left})
"""


@pytest.mark.parametrize(("how", "words"), [("full", "File too large"), ("read-only", "ermi")])
def test_a_cache_that_cannot_be_written_is_a_warning_too(
    apart: Apart, tmp_path: Path, how: str, words: str
) -> None:
    found = apart(FULL, tmp_path / "mine", how, FILTER, SINK)

    assert found["got"] == ["miss", "miss"]
    (warning,) = found["said"]
    assert words in warning
    assert found["left"] in ([], ["key"])


def test_the_command_runs_with_an_unusable_cache(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    command = [sys.executable, "-m", "torvyn", "inspect", str(FILTER)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}

    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert done.returncode == 0
    assert "world content-filter" in done.stdout
    assert done.stderr.count("warning") == 1
