"""How soon a thread that waits for the interpreter gets it; for commands that own the process."""

from __future__ import annotations

import sys
from typing import Final

_INTERVAL_S: Final = 0.0005
"""Python's own is 5 ms, which a stream's reader would notice."""


def shorten_switch_interval() -> None:
    sys.setswitchinterval(_INTERVAL_S)
