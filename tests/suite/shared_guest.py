"""Builds and compiles the guest that runs components of tests, unless that was done before.

`tools/run_tests.py` runs it first, so that no test waits for it: half a minute of CPU.
"""

from __future__ import annotations

from torvyn.sandbox.compile_cache import compile_component
from torvyn.testing.universal_guest import universal_guest

if __name__ == "__main__":
    compile_component(universal_guest(), "universal-guest", role="sink")
