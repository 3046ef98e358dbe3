"""Libraries that install handlers of their own do not take those of the sandbox."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
from torvyn._io.process import kept_fault_handlers

def is_caught(number):
    with open("/proc/self/status") as status:
        mask = next(int(line.split()[1], 16) for line in status if line.startswith("SigCgt"))
    return bool(mask >> (number - 1) & 1)

fault = signal.Signals[sys.argv[1]]
before = is_caught(fault)
with kept_fault_handlers():
    signal.signal(fault, lambda *_: None)
    during = is_caught(fault)
print(before, during, is_caught(fault))
"""


@pytest.mark.parametrize("fault", ["SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE"])
def test_a_handler_that_is_installed_meanwhile_is_gone_afterwards(fault: str) -> None:
    command = [sys.executable, "-c", PROGRAM, fault]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True", "False"]
