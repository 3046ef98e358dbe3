"""FileLock: one owner at a time, whoever dies, and whoever inherits it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scale import sample

from torvyn._io.files import FileLock, Locked, is_locked

OWNER = """
import sys, time
from pathlib import Path
from torvyn._io.files import FileLock
lock = FileLock(Path(sys.argv[1]), create=0o600, names_owner=True).acquire(wait_s=30.0)
print("locked", flush=True)
sys.stdin.read()
"""
ADDER = """
import sys
from pathlib import Path
from torvyn._io.files import FileLock
count = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with FileLock(count.parent / "lock", create=0o600).acquire(wait_s=None):
        count.write_text(str(int(count.read_text()) + 1))
"""


@contextlib.contextmanager
def owner(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_a_lock_names_the_process_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    with owner(path) as process, pytest.raises(Locked) as raised:
        FileLock(path, create=0o600, names_owner=True).acquire()

    assert (raised.value.path, raised.value.pid) == (path, str(process.pid))


def test_whoever_waits_gets_the_lock_of_a_process_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"

    with owner(path) as process:
        assert is_locked(path)
        process.send_signal(signal.SIGKILL)
        with FileLock(path, create=0o600).acquire(wait_s=30.0):
            assert process.wait() == -signal.SIGKILL

    assert path.exists()
    assert not is_locked(path)


def test_a_wait_ends_in_time(tmp_path: Path) -> None:
    with FileLock(tmp_path).acquire():
        begin_s = time.monotonic()
        with pytest.raises(Locked):
            FileLock(tmp_path).acquire(wait_s=0.1)

        assert time.monotonic() - begin_s >= 0.1


def test_readers_share_a_folder_that_a_writer_does_not_get(tmp_path: Path) -> None:
    with (
        FileLock(tmp_path, is_shared=True).acquire(),
        FileLock(tmp_path, is_shared=True).acquire(),
        pytest.raises(Locked),
    ):
        FileLock(tmp_path).acquire()

    FileLock(tmp_path).acquire().release()


def test_a_lock_lives_as_long_as_the_process_that_inherits_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", create=0o600).acquire()
    heir = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=-1, text=True, pass_fds=[lock.fileno()]
    )
    lock.release()

    assert is_locked(tmp_path / "lock")
    heir.communicate("\n")
    assert not is_locked(tmp_path / "lock")


def test_descriptors_are_closed_whatever_happens(tmp_path: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = count()
    with FileLock(tmp_path).acquire():
        for _ in range(20):
            with pytest.raises(Locked):
                FileLock(tmp_path).acquire()
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "missing")

    assert count() == before


def test_processes_that_count_together_lose_nothing(tmp_path: Path) -> None:
    count, each = tmp_path / "count", sample(50, full=1000)
    count.write_text("0")
    command = [sys.executable, "-c", ADDER, str(count), str(each)]

    processes = [subprocess.Popen(command) for _ in range(4)]

    assert [process.wait() for process in processes] == [0] * 4
    assert count.read_text() == str(4 * each)
