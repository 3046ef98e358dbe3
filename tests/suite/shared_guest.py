"""Builds and compiles what many tests would wait for, unless that was done before.

`tools/run_tests.py` runs it first, half a minute of CPU: the guest that runs components of tests,
and the C library of guests in C.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from torvyn._sandbox.build import build
from torvyn._sandbox.compiler import compile_component
from torvyn._sandbox.project import GuestProject
from torvyn.testing._sandbox_variant import universal_guest

C_GUEST = Path(__file__).parents[1] / "sandbox" / "c" / "counting"

if __name__ == "__main__":
    compile_component(universal_guest(), "universal-guest", role="sink")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(C_GUEST, Path(folder) / "counting"))
        build(GuestProject("counting", copy, "c"))
