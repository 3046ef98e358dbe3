"""What a process of a group is told, and what it reports back. All of it can be pickled."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from torvyn import errors
from torvyn._contract.inspection import describe_error
from torvyn.errors import Diagnostic, FlowError, Internal, TorvynError

if TYPE_CHECKING:
    from torvyn._cluster.output import OutputAddress
    from torvyn._flow.statistics import Statistics
    from torvyn._link.overrides import Overrides


@dataclass(frozen=True, slots=True)
class LogOptions:
    """How a process shows its log records: as those of the command that started it."""

    format: str = "human"
    level: int = 30
    component_level: int = 30


DEFAULT_LOGS: Final = LogOptions()


@dataclass(frozen=True, slots=True)
class ProjectCopy:
    """A project as every machine can have it."""

    host: str
    """The machine where it is; there its own files are used."""
    manifest: str
    folder: str
    """The folder in which the command was called."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment variables that the manifest uses."""
    archive: bytes | None = field(default=None, repr=False)
    """Its files, as a tar archive; None if all processes run on that machine."""
    files: frozenset[str] = frozenset()
    """The paths in the archive."""


@dataclass(frozen=True, slots=True)
class GroupJob:
    """One replica of one group of a flow."""

    flow: str
    group: str
    replica: int
    project: ProjectCopy
    overrides: Overrides
    output: OutputAddress
    logs: LogOptions = DEFAULT_LOGS
    discards_for: str = ""
    """The run before which the state on the machine's disk is discarded, once."""

    @property
    def name(self) -> str:
        return f"{self.group}.{self.replica}"

    @property
    def title(self) -> str:
        """How messages name it."""
        return f"replica {self.replica} of group `{self.group}`"


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An error that crosses from one process to another."""

    kind: str
    diagnostics: tuple[Diagnostic, ...]
    node: str | None = None
    sequence: int | None = None
    trace: str = ""
    """The traceback of its cause, for `-v`."""

    @classmethod
    def of(cls, error: BaseException) -> ErrorReport:
        if not isinstance(error, TorvynError):
            error = Internal(describe_error(error)).with_traceback(error.__traceback__)
        cause = error.__cause__
        return cls(
            type(error).__name__,
            error.diagnostics,
            getattr(error, "node", None),
            getattr(error, "sequence", None),
            "" if cause is None else "".join(traceback.format_exception(cause)),
        )

    def error(self, where: str) -> TorvynError:
        """The error again. `where`: the process in which it happened."""
        kind = getattr(errors, self.kind, FlowError)
        if not issubclass(kind, TorvynError):
            kind = FlowError
        error: TorvynError = kind.__new__(kind)
        first, *rest = self.diagnostics
        TorvynError.__init__(
            error,
            first.code,
            first.message,
            diagnostics=(replace(first, message=f"{first.message} ({where})"), *rest),
        )
        if isinstance(error, FlowError):
            error.node, error.sequence = self.node, self.sequence
        if self.trace:
            error.__cause__ = RemoteTraceback(self.trace)
        return error


class RemoteTraceback(Exception):
    """The traceback of another process, as text."""


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """How the run of one replica ended."""

    state: str
    """`completed`, `cancelled` or `failed`."""
    statistics: Statistics | None
    """None if it did not begin to run."""
    error: ErrorReport | None = None
