"""What all tests share: where helpers are found, a shell, and output with gaps."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import helper_folders
from torvyn._io.files import writable_folder

sys.path[:0] = [folder for folder in helper_folders.folders() if folder not in sys.path]
pytest_plugins = ["run_plan", "run_report"]

Shell = Callable[[str, Path], str]


@pytest.fixture(scope="session")
def shell() -> Shell:
    """Runs a command line in a folder; returns both streams merged, as a terminal shows them."""
    rest = {key: value for key, value in os.environ.items() if not key.startswith("TORVYN_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), rest.get("PATH", "")))
    # 80 columns, no colors and no user settings, whatever the terminal of the tests is.
    env = {**rest, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(command: str, folder: Path) -> str:
        done = subprocess.run(
            command,
            check=False,
            shell=True,
            cwd=folder,
            env={**env, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), **_own_state(folder)},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=50,
        )
        return done.stdout

    return run


def pattern(expected: str) -> re.Pattern[str]:
    """`...` matches any text within a line; alone on a line, any lines."""
    lines = []
    for line in expected.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(re.escape(line).replace(re.escape("..."), ".*") + "\n")
    return re.compile("".join(lines))


@pytest.fixture(scope="session")
def same() -> Callable[[str, str], None]:
    """Asserts that the output matches the expected text with its gaps."""

    def compare(got: str, expected: str) -> None:
        got, expected = got.rstrip("\n") + "\n", expected.rstrip("\n") + "\n"
        if not pattern(expected).fullmatch(got):
            # They differ; pytest shows how.
            assert got == expected

    return compare


def _own_state(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / ".local" / "state")}


def pytest_configure(config: pytest.Config) -> None:
    # One filter for all our modules: pytest applies each of them three times a test.
    helpers = "|".join(file.stem for file in helper_folders.modules())
    for kind in ("DeprecationWarning", "PendingDeprecationWarning"):
        line = rf"error::{kind}:(torvyn|tests)\.|({helpers})$"
        config.addinivalue_line("filterwarnings", line)
    # Flows would find the broker that the developer's own `torvyn cluster up` runs.
    state = tempfile.TemporaryDirectory(prefix="torvyn-state-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name
    # Tests with a cache of their own would compile zig's C library, each for itself.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    zig = writable_folder(cache / "zig", "torvyn-zig")
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(zig))
    # A shell starts background jobs with SIGINT ignored, and their children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
