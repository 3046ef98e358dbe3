"""One provocation for each code of the engines."""

from collections.abc import Callable
from pathlib import Path

from torvyn.engine.request import Request


def _request_invalid(_folder: Path) -> None:
    Request.make("hello", temperature=-1)


CASES: dict[str, Callable[[Path], None]] = {
    "engine.request-invalid": _request_invalid,
}
