"""The line of the user's own code in which a component raised an exception."""

from __future__ import annotations

import os
import traceback
from functools import cache
from types import FrameType
from typing import Final, NamedTuple

from torvyn._link.component_library import display_path

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


class SourceLine(NamedTuple):
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in `{self.function}`"


def source_line(error: BaseException) -> SourceLine | None:
    """The last line outside of torvyn and of libraries; of a library if there is no other."""
    calls = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _file(frame).startswith((_PACKAGE, "<"))
    ]
    own = [call for call in calls if not _file(call[0]).startswith(_libraries())]
    if not calls:
        return None
    frame, line = (own or calls)[-1]
    return SourceLine(display_path(_file(frame)), line, frame.f_code.co_qualname)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


@cache
def _libraries() -> tuple[str, ...]:
    # Slow to import, and needed only when something fails.
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({sysconfig.get_path(name) + os.sep for name in names})
