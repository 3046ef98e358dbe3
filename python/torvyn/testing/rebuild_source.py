"""Functions and classes of tests, made again from their source inside a guest.

`parcel` refers to these by name; the guest holds this file too. It imports nothing of the host.
"""

from __future__ import annotations

import builtins
import linecache
from typing import Any, Final

NAME: Final = "rebuilt"
"""What such functions and classes call their module."""


def make(source: str, name: str, known: dict[str, Any], line: int) -> Any:
    """Runs the source, which defines `name`, with what it needs at once."""
    namespace = {"__builtins__": builtins, "__name__": NAME, **known}
    file = f"<{name}>"
    lines = "\n" * (line - 1) + source
    # So that a traceback in the guest shows the line.
    linecache.cache[file] = (len(lines), None, lines.splitlines(keepends=True), file)
    exec(compile(lines, file, "exec"), namespace)
    made = namespace[name]
    if isinstance(made, type):
        setattr(made, "__rebuilt_in__", namespace)  # noqa: B010
    return made


def fill(made: Any, given: tuple[dict[str, Any], Any, Any]) -> None:
    """Gives a rebuilt function or class the names that it uses when it is called."""
    names, defaults, keyword_defaults = given
    if isinstance(made, type):
        vars(made)["__rebuilt_in__"].update(names)
        return
    made.__globals__.update(names)
    made.__defaults__, made.__kwdefaults__ = defaults, keyword_defaults
