"""When this version of torvyn was released: no clock that is right shows an earlier time.

`make wheel` writes the date into the wheel. A checkout has none, so there every time is possible.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("released.txt")


@cache
def released_s() -> int:
    """Seconds since 1970; 0 if it is not known."""
    try:
        return int(FILE.read_text())
    except (OSError, ValueError):
        return 0
