"""tools/move_modules.py: what it moves still imports, and everything that mentions it follows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from move_modules import main

CLOCK = '''"""The clock of the store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger("ship.store")

# How often the clock is read.
READ_S = 1.0
"""Seconds."""


class Clock:
    def now(self, read: Callable[[], float]) -> float:
        return read() + READ_S


def reset() -> None:
    _LOG.info("reset")
'''
LOG = '''"""The log of the store."""

from __future__ import annotations

import logging

from ship.store import clock
from ship.store.clock import READ_S, Clock

_LOG = logging.getLogger("ship.store")


class Log:
    def __init__(self) -> None:
        clock.reset()
        self.clock = Clock()
        self.read_s = READ_S
'''
USER = '''"""Uses the store: `ship.store.clock.Clock` in `ship/store/clock.py`."""

import logging

from ship.store import clock, log as log_file
from ship.store.clock import (
    READ_S,
    Clock,
)

PATHS = ["ship.store.clock:Clock", "ship.store.clock:reset"]
LOGGER = logging.getLogger("ship.store")


def use() -> float:
    from ship.store.clock import reset

    reset()
    clock.reset()
    return log_file.Log().read_s + READ_S + Clock().now(lambda: 0.0)
'''


@pytest.fixture
def ship(tmp_path: Path) -> Path:
    """A repository with a package of a few modules."""
    store = tmp_path / "python" / "ship" / "store"
    store.mkdir(parents=True)
    (store.parent / "__init__.py").write_text('"""A ship."""\n')
    (store.parent / "user.py").write_text(USER)
    (store / "__init__.py").write_text('"""What is stored."""\n')
    (store / "clock.py").write_text(CLOCK)
    (store / "log.py").write_text(LOG)
    (tmp_path / "GUIDE.md").write_text("`ship.store.clock.Clock`, of the logger `ship.store`.\n")
    (tmp_path / "CHANGELOG.md").write_text("ship.store.clock\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def move(ship: Path, *arguments: str) -> int:
    return main([*arguments, "--root", str(ship), "--package", "ship"], report=lambda _: None)


def result(ship: Path) -> float:
    """What the program computes, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", "import ship.user; print(ship.user.use(), ship.user.PATHS)"],
        cwd=ship / "python",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[0])


def python(ship: Path, name: str) -> str:
    return (ship / "python" / "ship" / name).read_text()


def test_a_moved_module_takes_its_imports_uses_and_mentions_along(ship: Path) -> None:
    assert move(ship, "ship.store.clock", "ship._time.wall_clock") == 0

    user = python(ship, "user.py")
    assert result(ship) == 3.0
    assert "ship.store.clock" not in user
    assert "`ship._time.wall_clock.Clock` in `ship/_time/wall_clock.py`" in user
    assert "'ship._time.wall_clock:reset'" in user or '"ship._time.wall_clock:reset"' in user
    assert "from ship._time import wall_clock" in user
    assert "wall_clock.reset()" in user
    assert python(ship, "_time/wall_clock.py") == CLOCK
    assert not (ship / "python/ship/store/clock.py").exists()


def test_text_that_users_match_stays(ship: Path) -> None:
    move(ship, "ship.store", "ship._store", "ship.store.clock", "ship._store.clock")

    assert (
        ship / "GUIDE.md"
    ).read_text() == "`ship._store.clock.Clock`, of the logger `ship.store`.\n"
    assert 'getLogger("ship.store")' in python(ship, "_store/clock.py")
    assert (ship / "CHANGELOG.md").read_text() == "ship.store.clock\n"
    assert "from ship.store import log as log_file" in python(ship, "user.py")


def test_modules_become_one(ship: Path) -> None:
    arguments = ["ship.store.clock", "ship._store", "ship.store.log", "ship._store"]
    assert move(ship, *arguments) == 0

    united = python(ship, "_store.py")
    assert result(ship) == 3.0
    assert united.count("_LOG =") == 1
    assert united.count("import logging") == 1
    assert "        reset()\n" in united
    assert "# How often the clock is read.\nREAD_S = 1.0\n" in united
    assert "The clock of the store.\n\nThe log of the store." in united


def test_a_module_joins_one_that_is_there(ship: Path) -> None:
    assert move(ship, "ship.store.clock", "ship.store.log") == 0

    assert result(ship) == 3.0
    assert python(ship, "store/log.py").startswith('"""The log of the store.')


def test_names_move_alone(ship: Path) -> None:
    assert move(ship, "ship.store.clock:Clock", "ship._clock") == 0

    assert result(ship) == 3.0
    assert "from ship.store.clock import READ_S" in python(ship, "_clock.py")
    assert "class Clock" not in python(ship, "store/clock.py")
    assert '"ship._clock:Clock", "ship.store.clock:reset"' in python(ship, "user.py")


def test_names_that_clash_are_listed_and_nothing_is_written(
    ship: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ship / "python/ship/store/clock.py"
    clock.write_text(CLOCK.replace("class Clock:", "class Log:\n    pass\n\n\nclass Clock:"))
    before = clock.read_text()

    assert move(ship, "ship.store.clock", "ship.store.log") == 2

    assert "Log: defined in ship.store.log and in ship.store.clock" in capsys.readouterr().err
    assert clock.read_text() == before


def test_a_name_is_renamed_on_the_way(ship: Path) -> None:
    clock = ship / "python/ship/store/clock.py"
    clock.write_text(CLOCK + "\n\ndef _log() -> None:\n    reset()\n\n\nLAST = _log\n")
    log = ship / "python/ship/store/log.py"
    log.write_text(LOG + "\n\ndef _log() -> None:\n    clock.reset()\n")

    rename = ["--rename", "ship.store.clock:_log=_log_clock"]
    assert move(ship, "ship.store.clock", "ship.store.log", *rename) == 0

    assert result(ship) == 3.0
    assert "LAST = _log_clock" in python(ship, "store/log.py")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ship.nothing", "ship.x"], "there is nothing to move"),
        (["ship.store.clock:Watch", "ship.x"], "defines no Watch"),
        (
            ["ship.store.clock", "ship.store.log", "ship.store.log", "ship.x"],
            "ship.store.log moves as well: do it in two steps",
        ),
    ],
)
def test_what_cannot_be_moved_is_said(
    ship: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert move(ship, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_table_moves_the_rows_of_one_folder(ship: Path, tmp_path: Path) -> None:
    table = tmp_path / "moves.tsv"
    table.write_text("store/clock.py\t_store/clock.py, and more\tremark\nuser.py\t_user.py\n")

    assert move(ship, "--table", str(table), "--only", "store/") == 0

    assert result(ship) == 3.0
    assert (ship / "python/ship/_store/clock.py").exists()


def test_a_dry_run_writes_nothing(ship: Path) -> None:
    before = {path: path.read_bytes() for path in ship.glob("python/**/*.py")}

    assert move(ship, "ship.store.clock", "ship.clock", "--dry-run") == 0

    assert before == {path: path.read_bytes() for path in ship.glob("python/**/*.py")}


FACADE = '''"""What is stored."""

from ship.store.clock import READ_S, Clock

__all__ = ["READ_S", "Clock"]
'''


def test_what_a_package_exports_again_is_imported_from_its_home(ship: Path) -> None:
    (ship / "python/ship/store/__init__.py").write_text(FACADE)
    user = ship / "python/ship/user.py"
    user.write_text(USER.replace("from ship.store.clock import (", "from ship.store import ("))
    (ship / "GUIDE.md").write_text("`ship.store.Clock`\n")

    assert move(ship, "--direct", "ship.store", "--dry-run") == 0
    assert python(ship, "store/__init__.py") == FACADE
    assert move(ship, "--direct", "ship.store") == 0

    assert result(ship) == 3.0
    assert python(ship, "store/__init__.py") == '"""What is stored."""\n'
    assert "from ship.store.clock import" in user.read_text()
    assert (ship / "GUIDE.md").read_text() == "`ship.store.clock.Clock`\n"


def test_a_package_that_defines_something_itself_stays(
    ship: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ship / "python/ship/store/__init__.py").write_text(f"{FACADE}\n\nclass Store: ...\n")

    assert move(ship, "--direct", "ship.store") == 2

    assert "ship.store defines Store: move it" in capsys.readouterr().err
    assert "class Store" in python(ship, "store/__init__.py")


def test_lines_of_two_files_that_become_one_are_not_repeated(ship: Path) -> None:
    lines = [f'"python/ship/store/{name}.py" = ["TID251"]\n' for name in ("clock", "log")]
    (ship / "pyproject.toml").write_text(f"[rules]\n{''.join(lines)}")

    move(ship, "ship.store.clock", "ship._all", "ship.store.log", "ship._all")

    assert (ship / "pyproject.toml").read_text() == (
        '[rules]\n"python/ship/_all.py" = ["TID251"]\n'
    )


def test_a_block_that_loses_its_imports_keeps_no_empty_statement(ship: Path) -> None:
    log = ship / "python/ship/store/log.py"
    log.write_text(
        LOG.replace("clock.reset()", "from ship.store.clock import reset\n\n        reset()")
    )

    assert move(ship, "ship.store.clock", "ship._all", "ship.store.log", "ship._all") == 0

    assert result(ship) == 3.0
    assert "pass" not in python(ship, "_all.py").split()
