"""Problems: collects diagnostics, so that one run reports everything that is wrong with a file.

It never raises by itself. It redacts values from the environment in every message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from torvyn._io.safe_text import redact
from torvyn.errors import Diagnostic, Location, MissingError, TorvynError


class Problems:
    """The problems so far; equal ones are kept once. Warnings do not count."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._errors: dict[Diagnostic, None] = {}
        self._warnings: dict[Diagnostic, None] = {}
        self._missing: set[Diagnostic] = set()
        self.secrets = set(secrets)
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
        self._errors.setdefault(Diagnostic(code, message, location, hint))
        self.cause = self.cause or cause

    def warn(
        self, code: str, message: str, location: Location | None = None, hint: str | None = None
    ) -> None:
        """Adds a problem that does not stop the command."""
        self._warnings.setdefault(Diagnostic(code, message, location, hint, "warning"))

    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings by location, redacted."""
        return self._sorted(self._warnings)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        self._errors.update(dict.fromkeys(diagnostics))

    def add_error(self, error: TorvynError) -> None:
        """Adds the problems of an exception."""
        self.extend(error.diagnostics)
        if isinstance(error, MissingError):
            self._missing.update(error.diagnostics)

    @property
    def are_outside(self) -> bool:
        """Whether the files are right, and only something that they need is missing, such as a
        registry that cannot be reached."""
        return bool(self._errors) and self._errors.keys() <= self._missing

    def merge(self, other: Problems, *, as_warnings: bool = False) -> None:
        """Adds the problems of another collector, or all of them as warnings."""
        errors = other._errors
        if as_warnings:
            warnings = (replace(error, severity="warning") for error in errors)
            self._warnings.update(dict.fromkeys(warnings))
        else:
            self._errors.update(errors)
            self._missing |= other._missing
            self.cause = self.cause or other.cause
        self._warnings.update(other._warnings)
        self.secrets |= other.secrets

    def __len__(self) -> int:
        return len(self._errors)

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The errors by location, redacted."""
        return self._sorted(self._errors)

    def _sorted(self, diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
        return tuple(self._redacted(item) for item in sorted(diagnostics, key=_position))

    def _redacted(self, diagnostic: Diagnostic) -> Diagnostic:
        hint = diagnostic.hint and redact(diagnostic.hint, self.secrets)
        return replace(diagnostic, message=redact(diagnostic.message, self.secrets), hint=hint)


def _position(diagnostic: Diagnostic) -> tuple[str, int, int]:
    location = diagnostic.location or Location()
    return (location.file or "", location.line or 0, location.column or 0)
