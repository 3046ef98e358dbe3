"""Problems: a collector, so that all that is wrong with a file is said in one run.

It hands on diagnostics and never raises by itself; `redact` keeps values from the environment out
of every message.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace

from torvyn.errors import Diagnostic, Location
from torvyn.text.redaction import redact


class Problems:
    """What is wrong so far, in the order it was found; the same problem is kept once.

    Warnings are kept apart: they are no reason to stop, and do not count.
    """

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}
        self._warned: dict[Diagnostic, None] = {}
        self.secrets: set[str] = set()
        self.cause: BaseException | None = None
        """The exception behind the first problem that has one."""

    def add(
        self,
        code: str,
        message: str,
        location: Location | None = None,
        hint: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self._found.setdefault(Diagnostic(code, message, location, hint))
        self.cause = self.cause or cause

    def warn(
        self, code: str, message: str, location: Location | None = None, hint: str | None = None
    ) -> None:
        """Something worth saying that stops nothing."""
        self._warned.setdefault(Diagnostic(code, message, location, hint, "warning"))

    def warnings(self) -> tuple[Diagnostic, ...]:
        """What was warned of, by place in the file, redacted."""
        return tuple(self._redacted(diagnostic) for diagnostic in sorted(self._warned, key=_place))

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._found.update(dict.fromkeys(diagnostics))

    def __len__(self) -> int:
        return len(self._found)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All of them, by place in the file, redacted."""
        found = sorted(self._found, key=_place)
        return tuple(self._redacted(diagnostic) for diagnostic in found)

    def _redacted(self, diagnostic: Diagnostic) -> Diagnostic:
        hint = diagnostic.hint and redact(diagnostic.hint, self.secrets)
        return replace(diagnostic, message=redact(diagnostic.message, self.secrets), hint=hint)


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    place = diagnostic.location or Location()
    return (place.file or "", place.line or 0, place.column or 0)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name a person most likely meant, or None when nothing is close."""
    lowered = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower().replace(" ", ""), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def quoted(names: Iterable[str], joint: str = "and") -> str:
    """`a`, `b` and `c`."""
    *rest, last = (f"`{name}`" for name in names)
    return f"{', '.join(rest)} {joint} {last}" if rest else last


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint for a name that is not known."""
    close = nearest(name, known)
    return f"did you mean `{close}`?" if close else otherwise
