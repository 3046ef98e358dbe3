"""Creates functions and classes of tests from their source, inside a guest.

`serialized_component` refers to these functions by name. Imports nothing of the host.
"""

from __future__ import annotations

import builtins
import linecache
from typing import Any, Final

MODULE: Final = "rebuilt"
"""The `__module__` of such functions and classes."""


def create(source: str, name: str, known: dict[str, Any], line: int) -> Any:
    """Runs the source, which defines `name`, with the names that it needs while it runs."""
    namespace = {"__builtins__": builtins, "__name__": MODULE, **known}
    file = f"<{name}>"
    lines = "\n" * (line - 1) + source
    # For tracebacks in the guest.
    linecache.cache[file] = (len(lines), None, lines.splitlines(keepends=True), file)
    exec(compile(lines, file, "exec"), namespace)
    definition = namespace[name]
    if isinstance(definition, type):
        setattr(definition, "__namespace__", namespace)  # noqa: B010
    return definition


def fill(definition: Any, state: tuple[dict[str, Any], Any, Any]) -> None:
    """Adds the names that a function or class uses when it is called."""
    names, defaults, keyword_defaults = state
    if isinstance(definition, type):
        vars(definition)["__namespace__"].update(names)
        return
    definition.__globals__.update(names)
    definition.__defaults__, definition.__kwdefaults__ = defaults, keyword_defaults
