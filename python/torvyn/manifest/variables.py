"""`${VAR}` in strings; `$$` is a dollar sign, and a dollar before anything else is itself.

What came from the environment is remembered, because it must never be printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torvyn.errors import Location
from torvyn.manifest.problems import Problems, suggestion

_MARK = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[^}]*)(?P<close>\}?))")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Variables:
    """The environment as one file sees it."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self._environ = environ
        self._problems = problems
        self.used: set[str] = set()

    def expand(self, text: str, location: Location) -> str | None:
        """The text with its variables filled in, or None and a problem."""
        if "$" not in text:
            return text
        whole = True

        def fill(found: re.Match[str]) -> str:
            nonlocal whole
            value = self._value(found, location)
            whole = whole and value is not None
            return value or ""

        expanded = _MARK.sub(fill, text)
        return expanded if whole else None

    def _value(self, found: re.Match[str], location: Location) -> str | None:
        if found["dollar"]:
            return "$"
        name = found["name"]
        if not found["close"] or not _NAME.fullmatch(name):
            self._problems.add(
                "manifest.bad-substitution",
                f"`{found[0]}` is not a variable",
                location,
                "write `${NAME}`, or `$$` for a dollar sign",
            )
            return None
        self.used.add(name)
        value = self._environ.get(name)
        if value is None:
            hint = suggestion(name, self._environ, f"set it: export {name}=...")
            message = f"the environment variable `{name}` is not set"
            self._problems.add("manifest.variable-undefined", message, location, hint)
        elif not _is_text(value):
            message = f"the environment variable `{name}` is not UTF-8"
            self._problems.add("manifest.bad-substitution", message, location)
            return None
        elif value:
            self._problems.secrets.add(value)
        return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape(text: str) -> str:
    """Text that `expand` gives back as it is."""
    return text.replace("$", "$$")
