"""The setting of the measurements: guests by name, guests built now, programs that run apart."""

from __future__ import annotations

import atexit
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from benches.reliability.line import LeftOut
from torvyn.sandbox.build.build import build
from torvyn.sandbox.build.project import GuestProject
from torvyn.sandbox.component import GuestComponent, GuestLimits, guest_class

TESTS = Path(__file__).parents[2] / "tests"
GUESTS = {
    path.stem: path
    for folder in ("sandbox", "faults")
    for path in (TESTS / folder / "guests").glob("*.wasm")
}
PYTHON_GUEST = """
import torvyn

class Loops(torvyn.Processor):
    def process(self, element):
        while element.text == "loop":
            pass
        return element.text
"""
PRELUDE = """
import json, os, sys
from benches.reliability.setting import *

def peak_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def answer(value):
    print(json.dumps(value), flush=True)
    os._exit(0)
"""


@cache
def folder() -> Path:
    """Where compiled code and builds of this run lie."""
    made = Path(tempfile.mkdtemp(prefix="torvyn-reliability-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def part(path: Path | str, config: str = "", **allowed: Any) -> GuestComponent:
    file = Path(path)
    made: GuestComponent = guest_class(file, file.stem, folder() / "cache")()
    made.set_limits(GuestLimits(file.stem, **allowed))
    made.config = config
    return made


@cache
def c_guest() -> Path:
    """The guest in C that goes wrong as it is told."""
    if importlib.util.find_spec("ziglang") is None:
        raise LeftOut("ziglang is not installed")
    shutil.copytree(TESTS / "faults" / "c" / "faulty", folder() / "faulty")
    return build(GuestProject("faulty", folder() / "faulty", "c")).path


@cache
def python_guest() -> Path:
    if importlib.util.find_spec("componentize_py") is None:
        raise LeftOut("componentize-py is not installed")
    (folder() / "loops").mkdir()
    (folder() / "loops" / "component.py").write_text(PYTHON_GUEST)
    return build(GuestProject("loops", folder() / "loops", "python")).path


def apart(program: str, *arguments: object) -> Any:
    """What a program in a process of its own answers; None when a signal ended it."""
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode < 0:
        return None
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


def hostile_wasm() -> ModuleType:
    """The makers of bombs and mutants, which the tests use as well."""
    file = TESTS / "faults" / "hostile_wasm.py"
    spec = importlib.util.spec_from_file_location("hostile_wasm", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
