"""What the tests of faults share: the guests by name, and the start of programs that run apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torvyn._sandbox.component import GuestComponent

TESTS = Path(__file__).parents[1]
GUESTS = {
    path.stem: path
    for folder in ("sandbox", "faults")
    for path in (TESTS / folder / "guests").glob("*.wasm")
}
Part = Callable[..., GuestComponent]
Apart = Callable[..., Any]

PRELUDE = """
import json, os, sys
from pathlib import Path
import torvyn
from torvyn._sandbox.component import GuestLimits, guest_class

def part(path, config="", **allowed):
    made = guest_class(Path(path), Path(path).stem)()
    made.set_limits(GuestLimits(made.name, **allowed))
    made.config = config
    return made

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def answer(value):
    print(json.dumps(value), flush=True)
    os._exit(0)
"""
