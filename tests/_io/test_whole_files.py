"""Files and folders that are whole, whoever writes at the same time and whenever one is killed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from scale import sample

from torvyn._io.files import new_folder, write_atomically

OLD, NEW = b"old" * 1000, b"new content" * 1000
STEPS = ("create", "write", "sync", "replace", "sync folder")


def ended_at(step: str, work: Callable[[Callable[[str], None]], None]) -> int:
    """The exit code of a child that ends at a step, as if it was killed there."""
    child = os.fork()
    if child == 0:

        def end(name: str) -> None:
            if name.startswith(step):
                os._exit(9)

        try:
            work(end)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("old", [None, OLD])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, step: str, old: bytes | None
) -> None:
    path = tmp_path / "state.json"
    if old is not None:
        path.write_bytes(old)

    assert ended_at(step, lambda end: write_atomically(path, NEW, step=end)) == 9

    found = path.read_bytes() if path.exists() else None
    assert found in ((NEW,) if step == "sync folder" else (old,))
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "state"
    contents = [bytes([65 + number]) * 50_000 for number in range(4)]
    write_atomically(path, contents[0])
    rounds, seen = sample(50, full=2000), set()

    def write(content: bytes) -> None:
        for _ in range(rounds):
            write_atomically(path, content, is_durable=False)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("step", STEPS[:-1])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, step: str) -> None:
    path = tmp_path / "state"
    path.write_bytes(OLD)

    def fail(name: str) -> None:
        if name.startswith(f"{step} state"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, NEW, step=fail)

    assert path.read_bytes() == OLD
    assert [*tmp_path.iterdir()] == [path]


def test_a_file_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    write_atomically(tmp_path / "key", "secret", mode=0o600)

    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").read_text() == "secret"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_may_keep_the_owner_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(OLD)
    os.chown(path, 1234, 1234)

    write_atomically(path, NEW, keeps_owner=True)

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1234)


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "site"

    with pytest.raises(ValueError, match="bad wheel"), new_folder(target) as made:
        (made / "part").write_text("half")
        raise ValueError("bad wheel")
    assert [*tmp_path.iterdir()] == []

    with new_folder(target, is_durable=True) as made:
        (made / "part").write_text("whole")
        assert not target.exists()
    assert (target / "part").read_text() == "whole"
    assert target.stat().st_mode & 0o777 == 0o755


def test_the_first_of_several_writers_of_a_folder_wins(tmp_path: Path) -> None:
    target = tmp_path / "site"

    with new_folder(target) as slow:
        (slow / "by").write_text("slow")
        with new_folder(target) as quick:
            (quick / "by").write_text("quick")

    assert (target / "by").read_text() == "quick"
    assert [*tmp_path.iterdir()] == [target]
