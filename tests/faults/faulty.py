"""What the tests of faults share: the guests by name, and the start of programs that run apart."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torvyn.sandbox.component import GuestComponent

TESTS = Path(__file__).parents[1]
GUESTS = {
    path.stem: path
    for folder in ("sandbox", "faults")
    for path in (TESTS / folder / "guests").glob("*.wasm")
}
Part = Callable[..., GuestComponent]
Apart = Callable[..., Any]


needs_zig = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None,
    reason="NOT TESTED: guests in C, for want of ziglang: pip install 'torvyn[c]'",
)
needs_componentize_py = pytest.mark.skipif(
    importlib.util.find_spec("componentize_py") is None,
    reason="NOT TESTED: guests in Python, for want of componentize-py: "
    "pip install 'torvyn[python-guest]'",
)

PRELUDE = """
import json, os, sys
from pathlib import Path
import torvyn
from torvyn.sandbox.component import Allowance, guest_class

def part(path, config="", **allowed):
    made = guest_class(Path(path), Path(path).stem)()
    made.allow(Allowance(made.name, **allowed))
    made.config = config
    return made

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

def answer(value):
    print(json.dumps(value), flush=True)
    os._exit(0)
"""
