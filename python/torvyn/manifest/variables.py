"""`${VAR}` in strings. `$$` is a dollar sign; a dollar before any other character is itself.

Values from the environment are recorded, because they must never be printed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torvyn.errors import Location
from torvyn.manifest.problems import Problems, suggestion

_MARK = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[^}]*)(?P<close>\}?))")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Variables:
    """The environment variables that one file uses."""

    def __init__(self, environ: Mapping[str, str], problems: Problems) -> None:
        self._environ = environ
        self._problems = problems
        self.used: set[str] = set()

    def expand(self, text: str, location: Location) -> str | None:
        """The text with its variables expanded, or None and a problem."""
        if "$" not in text:
            return text
        is_complete = True

        def fill(match: re.Match[str]) -> str:
            nonlocal is_complete
            value = self._value(match, location)
            is_complete = is_complete and value is not None
            return value or ""

        expanded = _MARK.sub(fill, text)
        return expanded if is_complete else None

    def _value(self, match: re.Match[str], location: Location) -> str | None:
        if match["dollar"]:
            return "$"
        name = match["name"]
        if not match["close"] or not _NAME.fullmatch(name):
            self._problems.add(
                "manifest.bad-substitution",
                f"`{match[0]}` is not a variable",
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
    """The text, escaped so that `expand` returns it unchanged."""
    return text.replace("$", "$$")
