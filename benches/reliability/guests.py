"""Guests for the measurements, and programs that run in their own process."""

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

from benches.reliability.case import SkipCase
from torvyn._sandbox.build import build
from torvyn._sandbox.component import GuestComponent, GuestLimits, guest_class
from torvyn._sandbox.project import GuestProject

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
from benches.reliability.guests import *

def peak_bytes():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def report(value):
    print(json.dumps(value), flush=True)
    os._exit(0)
"""


@cache
def folder() -> Path:
    """The temporary folder for builds and compiled code."""
    path = Path(tempfile.mkdtemp(prefix="torvyn-reliability-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def new_guest(path: Path | str, config: str = "", **limits: Any) -> GuestComponent:
    file = Path(path)
    guest: GuestComponent = guest_class(file, file.stem, folder() / "cache")()
    guest.set_limits(GuestLimits(file.stem, **limits))
    guest.config = config
    return guest


@cache
def c_guest() -> Path:
    """The C guest that fails on request."""
    if importlib.util.find_spec("ziglang") is None:
        raise SkipCase("ziglang is not installed")
    shutil.copytree(TESTS / "faults" / "c" / "faulty", folder() / "faulty")
    return build(GuestProject("faulty", folder() / "faulty", "c")).path


@cache
def python_guest() -> Path:
    if importlib.util.find_spec("componentize_py") is None:
        raise SkipCase("componentize-py is not installed")
    (folder() / "loops").mkdir()
    (folder() / "loops" / "component.py").write_text(PYTHON_GUEST)
    return build(GuestProject("loops", folder() / "loops", "python")).path


def run_in_process(program: str, *arguments: object) -> Any:
    """What a program reports from its own process; None if a signal ended it."""
    command = [sys.executable, "-c", PRELUDE + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode < 0:
        return None
    done.check_returncode()
    return json.loads(done.stdout.splitlines()[-1])


@cache
def load_test_module(path: str) -> ModuleType:
    """A module of the tests, such as `faults/hostile_wasm.py`."""
    file = TESTS / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hostile_wasm() -> ModuleType:
    """The tests' generators of malformed wasm."""
    return load_test_module("faults/hostile_wasm.py")
