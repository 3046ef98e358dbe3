"""The exception tree, and the form in which people read an error.

    TorvynError
    +-- ManifestError          the manifest is invalid              exit 2
    +-- LinkError              a flow cannot be linked              exit 2
    +-- ContractError          a component breaks its contract      exit 2
    +-- UsageError             the command line is invalid          exit 2
    +-- TextError              tokens or a tokenizer are invalid    exit 2
    +-- ArtifactError          an artifact is invalid or rejected   exit 2
    +-- DeployError            a deployment or its channel refuses  exit 2
    +-- ClusterError           a part of a cluster does not work    exit 1
    +-- MissingError           a file, model or package is missing  exit 3
    +-- FlowError              a running flow failed                exit 1
    |   +-- ComponentError     raised by components
    |       +-- InvalidInput       the element is invalid; never retried
    |       +-- Unavailable        something outside is unavailable; a retry may help
    |       +-- Internal           the component has a bug; any other exception becomes this
    |       +-- DeadlineExceeded   a time limit was exceeded
    |       +-- Fatal              the component cannot continue; always stops the flow
    +-- BugError               torvyn has a bug                     exit 70

Every error has a code of the form `package.kebab-words`; `torvyn.catalogue` explains each. An error
may have several diagnostics, because all problems of a manifest are reported in one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Location:
    """A location that people can open: `Torvyn.toml:31:8, flow.main.edges[2].from`."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}"
            if self.column is not None:
                place += f":{self.column}"
        return ", ".join(part for part in (place, self.path) if part)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem: what happened, where, and what to do."""

    code: str
    message: str
    location: Location | None = None
    hint: str | None = None
    severity: str = "error"

    def render(self) -> str:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.location is not None and str(self.location):
            lines.append(f"  at {self.location}")
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class UpstreamReply:
    """What an upstream has answered instead of a completion, as far as clients may know it."""

    status: int
    code: str | None = None
    """The code in its body."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """When to try again, and its rate limits; by lower-case names."""


class TorvynError(Exception):
    """The root. `diagnostics` has at least one entry; the attributes are those of the first."""

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "torvyn.error"
    is_logged: bool = False
    """A line of the log says what people need to know of it."""
    reply: UpstreamReply | None = None
    """If it is an upstream's refusal that concerns clients."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        location: Location | None = None,
        hint: str | None = None,
        diagnostics: Sequence[Diagnostic] | None = None,
    ) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(
            diagnostics or (Diagnostic(code, message, location, hint),)
        )

    @classmethod
    def of(cls, diagnostics: Sequence[Diagnostic]) -> TorvynError:
        """One error for several problems."""
        first = diagnostics[0]
        return cls(first.code, first.message, diagnostics=diagnostics)

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    @property
    def message(self) -> str:
        return self.diagnostics[0].message

    @property
    def location(self) -> Location | None:
        return self.diagnostics[0].location

    @property
    def hint(self) -> str | None:
        return self.diagnostics[0].hint

    def render(self) -> str:
        """The text for people, one block per problem."""
        return "\n\n".join(diagnostic.render() for diagnostic in self.diagnostics)

    def at(self, location: Location) -> TorvynError:
        """This error with a location, if it has none yet."""
        first, *rest = self.diagnostics
        if first.location is None:
            self.diagnostics = (replace(first, location=location), *rest)
        return self


class ManifestError(TorvynError):
    exit_code = 2


class LinkError(TorvynError):
    exit_code = 2


class ContractError(TorvynError):
    exit_code = 2


class UsageError(TorvynError):
    exit_code = 2


class TextError(TorvynError):
    exit_code = 2


class ArtifactError(TorvynError):
    exit_code = 2


class DeployError(TorvynError):
    exit_code = 2


class ClusterError(TorvynError):
    exit_code = 1


class MissingError(TorvynError):
    exit_code = 3


class BugError(TorvynError):
    exit_code = 70


class FlowError(TorvynError):
    """A flow failed. `node`, `sequence` and `__cause__` are set when they are known."""

    node: str | None = None
    sequence: int | None = None
    accepted: int | None = None
    ready: Sequence[Any] = ()
    """For `reactor.feed-full`: the number of accepted items, and the outputs so far. When a flow
    fails while it is fed, `ready` has its outputs until then."""


class ComponentError(FlowError):
    """The error of a component: `raise torvyn.InvalidInput("not a number")`.

    Packages of torvyn pass a more specific code.
    """

    default_code = "component.internal"
    refused: bytes | None = None
    """For `InvalidInput` raised by a source: what it read and could not make an element of. It has
    gone on behind it."""

    def __init__(
        self, message: str = "", *, hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(code or self.default_code, message or type(self).__name__, hint=hint)


class InvalidInput(ComponentError):
    default_code = "component.invalid-input"


class Unavailable(ComponentError):
    default_code = "component.unavailable"


class Internal(ComponentError):
    default_code = "component.internal"


class DeadlineExceeded(ComponentError):
    default_code = "component.deadline-exceeded"


class Fatal(ComponentError):
    default_code = "component.fatal"


def install_hint(extra: str) -> str:
    """The command that installs the packages of an extra.

    It names the packages, because torvyn itself may come from a checkout or a wheel file, where
    `pip install torvyn[...]` would look for it on an index.
    """
    from importlib.metadata import PackageNotFoundError, requires
    from shlex import quote

    try:
        lines = requires("torvyn") or []
    except PackageNotFoundError:
        lines = []
    # Such as `uvloop>=0.21; sys_platform != "win32" and extra == "serve"`.
    parts = [line.replace('"', "'").partition(";") for line in lines]
    names = [quote(name.strip()) for name, _, when in parts if f"extra == '{extra}'" in when]
    return f"pip install {' '.join(names)}" if names else f"install the packages of `{extra}`"
