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

Every error has a code of the form `package.kebab-words`; `CATALOGUE` explains each. An error
may have several diagnostics, because all problems of a manifest are reported in one run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Final, Literal


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


Reason = Literal["full", "io", "limit", "corrupt"]

_CODES: Final[dict[Reason, str]] = {
    "full": "durable.disk-full",
    "io": "durable.disk-failed",
    "limit": "durable.log-full",
    "corrupt": "durable.damaged",
}

_HINTS: Final[dict[Reason, str]] = {
    "full": "free disk space; the flow continues by itself",
    "io": "check the disk and the permissions of the folder; the flow continues by itself",
    "limit": "wait until the log is drained, raise `max_bytes`, or choose a `drop` policy",
    "corrupt": "try again: the store has copied what is readable to a new file",
}


_NO_FOLDER: Final = (
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
)
"""The folder is the wrong one, which does not pass by itself. A disk that is read-only does: Linux
makes it so after some failures."""

_START_HINTS: Final[dict[Reason, str]] = {
    "full": "free disk space, or set another folder as `[runtime] state_dir`",
    "io": "check the disk and the permissions of the folder, or set another one as "
    "`[runtime] state_dir`",
}


class StoreUnavailable(Unavailable):
    """The store cannot take this now. Nothing of the transaction is durable."""

    def __init__(
        self, reason: Reason, message: str, hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code or _CODES[reason], hint=hint or _HINTS[reason])
        self.reason: Final = reason

    @property
    def is_lasting(self) -> bool:
        """Whether it makes no sense to try again."""
        cause = self.__cause__
        is_misplaced = isinstance(cause, OSError) and cause.errno in _NO_FOLDER
        return self.reason == "corrupt" or is_misplaced

    def at_start(self) -> StoreUnavailable:
        """The same for a store that cannot be opened: a start may be given up."""
        error = StoreUnavailable(self.reason, self.message, _START_HINTS.get(self.reason))
        error.__cause__ = self.__cause__
        return error


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


def os_reason(error: BaseException) -> str:
    """Why a call failed, as a part of a sentence: `no such file or directory`.

    The number of the operating system says it best: asyncio's text names the call instead, and
    aiohttp's the host, in front of the error that has the number. The numbers of errors of TLS and
    of looking up names are not the system's.
    """
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if type(cause).__module__ == "ssl":
        untrusted = getattr(cause, "verify_message", None)
        return f"certificate verify failed: {untrusted}" if untrusted else f"TLS: {cause}"
    if isinstance(number, int) and number > 0 and type(cause).__module__ != "socket":
        return os.strerror(number).lower()
    if isinstance(cause, TimeoutError) and not str(cause):
        return "it did not answer in time"
    return (getattr(cause, "strerror", None) or str(cause) or type(cause).__name__).lower()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None when none is close."""
    import difflib

    lowered = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower().replace(" ", ""), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


def quoted(names: Iterable[str], joint: str = "and") -> str:
    """`a`, `b` and `c`."""
    *rest, last = (f"`{name}`" for name in names)
    return f"{', '.join(rest)} {joint} {last}" if rest else last


def suggestion(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The hint for an unknown name."""
    close = nearest(name, known)
    return f"did you mean `{close}`?" if close else otherwise


def near(name: str, known: Iterable[str], listing: str) -> str:
    """`listing`, with the name that was probably meant."""
    close = nearest(name, known)
    return f"{listing}; did you mean `{close}`?" if close else listing


# The reference page is generated from this table, and `tests/catalogue` raises every code.
CATALOGUE: Final[dict[str, str]] = {
    # contract: a component breaks the contract of its role
    "contract.not-a-component": "A node's component is not a component, a function or an iterable.",
    "contract.bad-attribute": "An attribute of a component raises an exception or has the wrong "
    "type.",
    "contract.bad-snapshot": "A component's `snapshot` returned a value that cannot be stored.",
    "contract.wrong-signature": "A component's method does not accept the arguments that its "
    "role passes.",
    "contract.wrong-result": "A component's method returned a value that its role does not allow.",
    "contract.wrong-config": "A component's config has an unknown, missing or invalid option.",
    # component: errors that components raise
    "component.invalid-input": "The element is invalid. It is never retried.",
    "component.unavailable": "Something that the component needs is unavailable. A retry may help.",
    "component.internal": "The component has a bug. Every other exception becomes this error.",
    "component.deadline-exceeded": "A call or the flow exceeded its time limit.",
    "component.fatal": "The component cannot continue, or raised something other than an "
    "`Exception`, such as `SystemExit`. It stops the flow under every policy.",
    # native: the native module
    "native.part-missing": "Torvyn was built without a part that is needed here.",
    # broker: NATS servers
    "broker.away": "A NATS server cannot be reached, or does not answer.",
    "broker.before-namespaces": "A flow has run on a NATS server before its names had a namespace.",
    "broker.credentials": "The credentials for a NATS server cannot be used.",
    "broker.denied": "A right that flows need is missing at a NATS server.",
    "broker.entry-damaged": "What a segment has saved on a NATS server is not whole.",
    "broker.entry-gone": "What a segment has saved on a NATS server was deleted while it ran.",
    "broker.flow-runs": "What a flow has on a NATS server is not removed while it runs.",
    "broker.full": "An edge on a NATS server has reached its limit.",
    "broker.other-project": "A flow of the same name in another project uses the NATS server.",
    "broker.partitions-changed": "Elements wait on a `nats` edge for another number of replicas.",
    "broker.refused": "A NATS server refuses to carry an edge.",
    "broker.replicas-changed": "What a segment has saved belongs to another number of replicas.",
    "broker.run-over": "The segment of a flow has ended in this run, and is not run again.",
    "broker.run-unnamed": "A segment whose run has a name reads what one without a name writes.",
    "broker.stream-gone": "The stream of an edge was deleted from a NATS server while a flow ran.",
    "broker.taken-over": "Another process runs the segment of a flow that this one ran.",
    "broker.too-few-servers": "A NATS cluster has fewer servers than are to store each element.",
    "broker.too-old": "The version of a NATS server cannot do what an edge needs.",
    # components: the built-in components
    "components.package-missing": "A component needs a package that is not installed.",
    "components.file-missing": "A file to read, or the folder of a file to write, does not exist.",
    "components.file-unreadable": "A file exists but cannot be opened for reading.",
    "components.file-unwritable": "A file cannot be opened for writing.",
    # durable: data on disk
    "durable.damaged": "The file of a flow's data is damaged. What is readable was copied to a new "
    "file; the next attempt uses it.",
    "durable.disk-failed": "A flow's data cannot be written: the disk or the folder does not work.",
    "durable.disk-full": "A flow's data cannot be written: the disk is full.",
    "durable.in-use": "Another process runs the flow whose data is in this folder.",
    "durable.log-full": "A log with the policy `block` or `error` has reached its `max_bytes`.",
    "durable.newer-version": "A flow's data was written by a newer version of torvyn.",
    "durable.row-too-large": "A batch is too large for the `max_bytes` of its log.",
    "durable.shape-changed": "A flow was changed, and no longer fits the state that it saved.",
    "durable.unsafe-aggregator": "A crash would lose what an aggregator has collected.",
    # edge: deployments and their updates
    "edge.bad-name": "A text is not the name of a deployment.",
    "edge.channel-artifact-dropped": "A version of a channel lacks an artifact of the one before.",
    "edge.channel-artifact-unknown": "A channel has no artifact of this name, or several and none "
    "was named.",
    "edge.channel-bar-falls": "A version of a channel allows versions that were barred before.",
    "edge.channel-expired": "A document of a channel has expired. What runs goes on.",
    "edge.channel-forked": "A channel has two documents of the same version.",
    "edge.channel-invalid": "The document of a channel is malformed.",
    "edge.channel-keys-differ": "`--key` names other keys than a known channel is trusted with.",
    "edge.channel-keys-same": "A change of keys names the keys that there are.",
    "edge.channel-new-signers": "A version of a channel is signed by keys that its devices do not "
    "trust. A warning.",
    "edge.channel-other": "A document belongs to another channel.",
    "edge.channel-project-falls": "A version of a channel has an older project. A warning.",
    "edge.channel-rolled-back": "A document is older than one that was accepted before.",
    "edge.channel-skipped": "The version of a document is too far ahead of the last one.",
    "edge.channel-untrusted": "Too few of the trusted keys have signed a document.",
    "edge.channel-version-falls": "A version of a channel is not higher than the one before.",
    "edge.check-failed": "An artifact of a channel cannot run on this machine.",
    "edge.damaged": "A file of a deployment cannot be read as what it should be.",
    "edge.deployment-unknown": "There is no deployment of this name.",
    "edge.disk-failed": "A file of a deployment cannot be written. Nothing has changed.",
    "edge.generation-unknown": "A deployment has no generation of this number.",
    "edge.in-use": "Another process changes or runs the deployment.",
    "edge.no-fallback": "A deployment has no other good generation to go back to.",
    "edge.no-generation": "A deployment has no generation that can run.",
    "edge.not-a-project": "An artifact for a deployment is not a packed project.",
    "edge.too-many-channels": "A deployment has followed too many channels.",
    "edge.too-slow": "A download of an update is too slow. The next try continues it.",
    "edge.unreachable": "A channel or its artifact cannot be fetched. What runs goes on.",
    "edge.version-barred": "The channel of a deployment no longer allows a generation's version.",
    # engine: requests to engines, and their failures
    "engine.already-read": "A generation was iterated a second time.",
    "engine.bad-option": "An engine does not have the option, or the option's value is invalid.",
    "engine.closed": "A request was sent to a closed engine.",
    "engine.context-full": "A prompt is longer than the model's context.",
    "engine.failed": "An engine failed for an unknown reason.",
    "engine.flow-unfit": "A flow does not have the form of a flow that answers requests.",
    "engine.member-unknown": "A pool has no member of this name.",
    "engine.member-unwell": "A new member of a pool did not become well in time.",
    "engine.model-missing": "The requested model does not exist.",
    "engine.model-unusable": "The model exists, but the engine cannot open it.",
    "engine.package-missing": "An engine needs a package that is not installed.",
    "engine.pool-down": "No member of a pool can be reached.",
    "engine.pool-fixed": "A pool whose members have fixed addresses cannot start new ones.",
    "engine.pool-full": "All members of a pool are busy, and its queue is full or too slow.",
    "engine.prompt-text-unknown": "An element before an engine does not belong to a text of the "
    "request.",
    "engine.request-invalid": "A request to an engine has invalid options.",
    "engine.request-running": "Another request with the same id is still running.",
    "engine.scripted-failure": "The script of a scripted engine fails at this step.",
    "engine.step-invalid": "An engine produced a step that does not fit its request.",
    "engine.unknown": "The engine's name is unknown.",
    "engine.upstream-busy": "An upstream is busy or failed temporarily.",
    "engine.upstream-cut": "The answer of an upstream ended before it was complete.",
    "engine.upstream-denied": "An upstream rejected the API key, or requires one.",
    "engine.upstream-down": "An upstream cannot be reached.",
    "engine.upstream-error": "An upstream sent an error in the middle of its answer.",
    "engine.upstream-failed": "An upstream failed permanently.",
    "engine.upstream-garbage": "The data from an upstream is not an answer.",
    "engine.upstream-redirect": "An upstream redirected a request to another address.",
    "engine.upstream-refused": "An upstream rejected the request.",
    "engine.upstream-slow": "An upstream exceeded its time limit.",
    "engine.would-block": "A `for` loop over an answer would block the event loop that produces "
    "it.",
    # loops: the event loops of flows, engines and clients
    "loops.not-asyncio": "A flow, answer or component was awaited on an event loop that is not "
    "asyncio's.",
    # protocol: data from the wire
    "protocol.bad-chunk": "An upstream sent a chunk that is not valid JSON or has an unknown "
    "shape.",
    "protocol.bad-frame": "A peer sent data that is not a valid frame.",
    "protocol.bad-json": "A text is not valid JSON, or ends too early.",
    "protocol.event-too-large": "The data of one event exceeds the limit.",
    "protocol.json-too-deep": "The JSON of a tool call is nested too deeply.",
    "protocol.line-too-long": "One line of a stream exceeds the limit.",
    "protocol.stream-cut": "A stream ended before its answer was complete.",
    # transport: serving over HTTP
    "transport.audit-unwritable": "The server cannot write its audit log.",
    "transport.bad-json": "A request body is not a JSON object.",
    "transport.bad-message": "A gRPC client sent an invalid message.",
    "transport.body-malformed": "A request body is not encoded as its headers say.",
    "transport.body-slow": "A request body was not received in time.",
    "transport.body-too-large": "A request body is larger than `max_body`.",
    "transport.busy": "The server already runs as many answers as `max_streams` allows.",
    "transport.cannot-listen": "The server cannot listen on its address or port.",
    "transport.channel-full": "A connection already carries the maximum number of streams.",
    "transport.cors-invalid": "`cors` is not a list of origins, or is `*` without API keys.",
    "transport.credit-withheld": "A client granted a stream no credit within `write_timeout`.",
    "transport.deadline": "The deadline of a flow or of a gRPC call passed before its end.",
    "transport.encoding-refused": "A gRPC client sent compressed messages.",
    "transport.failed": "The server failed because of an internal error; see its log.",
    "transport.flow-unknown": "A request names a flow or model that the server does not serve.",
    "transport.grpc-refused": "A gRPC call arrived over a connection that does not carry gRPC.",
    "transport.host-ambiguous": "A request names more than one host.",
    "transport.host-refused": "A request has a `Host` header that the server does not accept.",
    "transport.instance-unknown": "No answer with that id runs or ended recently.",
    "transport.json-too-deep": "A request body has too many levels of nesting.",
    "transport.message-invalid": "A client's message has an unknown type or an invalid field.",
    "transport.key-busy": "An API key already has as many streams as its limit allows.",
    "transport.key-exists": "A key with that name already exists.",
    "transport.key-expired": "An API key has expired.",
    "transport.key-invalid": "A key cannot have that name, tenant or limit.",
    "transport.key-missing": "The server requires an API key, and the request has none.",
    "transport.key-rate": "An API key exceeded its limit of requests per minute.",
    "transport.key-not-admin": "A route needs a key with the scope `admin`.",
    "transport.key-revoked": "An API key was revoked or expired while it was in use.",
    "transport.key-unknown": "No key has that name.",
    "transport.key-wrong": "The server does not know the API key of a request.",
    "transport.keys-exposed": "Other users can write the key file.",
    "transport.keys-invalid": "A file is not a key file, or is damaged.",
    "transport.keys-unreadable": "The key file does not exist, or cannot be read.",
    "transport.keys-unwritable": "The key file cannot be written.",
    "transport.limits-unavailable": "The broker refuses to count what an API key may use.",
    "transport.method-refused": "A route does not accept that method.",
    "transport.method-unknown": "A gRPC client called a method that the server does not have.",
    "transport.no-flow": "No flow of the manifest answers requests.",
    "transport.origin-refused": "A request comes from a web page of another origin.",
    "transport.package-missing": "Serving needs a package that is not installed.",
    "transport.public-refused": "Other machines could reach a server that requires no API key.",
    "transport.request-invalid": "A request has invalid fields.",
    "transport.route-unknown": "The server has no such route.",
    "transport.service-unknown": "A gRPC client asked for the health of an unknown service.",
    "transport.shutting-down": "The server is shutting down.",
    "transport.stateful-refused": "Several workers serve, so a stream cannot be stateful.",
    "transport.stream-id-taken": "A stream with that id already runs on the connection.",
    "transport.stream-left": "The client stopped a stream before it started.",
    "transport.stream-unknown": "No stream has that id; it may have ended.",
    "transport.unread": "A gRPC client read nothing for `write_timeout`.",
    "transport.upgrade-needed": "The WebSocket path received no handshake of version 13.",
    # observe: logs and telemetry
    "observe.bad-endpoint": "The address of the collector is not a valid URL.",
    "observe.bad-headers": "The headers for the collector are not a list of `name=value`.",
    "observe.package-missing": "An exporter needs a package that is not installed.",
    # session: streams that outlive their connection
    "session.all-read": "A client resumed an answer that it has already read to its end.",
    "session.bad-id": "A client sent an invalid event id.",
    "session.broker-away": "The broker that keeps a stream cannot be reached.",
    "session.cannot-open": "The server cannot open its session store.",
    "session.epoch-old": "An event id belongs to another answer.",
    "session.frames-gone": "The server no longer has the frames that a client needs.",
    "session.generation-lost": "The server or the flow restarted and cannot continue an answer.",
    "session.memory-full": "Stateful answers keep all the memory that they may.",
    "session.prompt-too-large": "The prompt of a stateful answer is too large to be stored.",
    "session.share-full": "A tenant has used its share of the session store.",
    "session.store-failed": "An answer ended because the server could not store it.",
    "session.taken-over": "Another connection reads the stream now, or another server has it.",
    "session.too-many": "The server keeps the maximum number of stateful answers.",
    "transport.tls-unusable": "The TLS certificate or its key is missing, or they do not match.",
    "transport.workers-refused": "Several workers cannot serve with a setting.",
    # client: what asks a server
    "client.already-read": "A stream was read a second time.",
    "client.bad-option": "An option of a client, or a field of its request, is invalid.",
    "client.closed": "A client was used after it was closed.",
    "client.cut": "A connection ended before its answer was complete, and was not resumed.",
    "client.garbage": "The data from a server is not a frame or an answer.",
    "client.not-begun": "A stream was stopped or left before it started.",
    "client.package-missing": "A client needs a package that is not installed.",
    "client.refused": "A server or a proxy rejected the request with an unknown error.",
    "client.unreachable": "The server cannot be reached.",
    "client.unsupported": "The transport or the stream does not support the operation.",
    "client.would-block": "A sync client was used where it would block its own event loop.",
    # text: token ids, bytes and tokenizer files
    "text.bytes-invalid": "A strict streamer received invalid bytes.",
    "text.no-vocabulary": "A streamer without a vocabulary received a token id.",
    "text.tail-unfinished": "A text ended in the middle of a character, and the policy is `error`.",
    "text.token-unknown": "A token id is not in the vocabulary.",
    "text.vocabulary-invalid": "The file is not a tokenizer, or it is damaged.",
    "text.vocabulary-missing": "The tokenizer's file does not exist.",
    "text.vocabulary-too-large": "The tokenizer's file exceeds the limit.",
    "text.vocabulary-unreadable": "The tokenizer's file exists but cannot be read.",
    "text.vocabulary-unsupported": "The tokenizer cannot decode token by token.",
    # manifest: the text of Torvyn.toml
    "manifest.bad-duration": "A value is not a duration such as `100us`, `5s` or `1.5h`.",
    "manifest.bad-name": "A name has characters other than letters, digits, `_` and `-`.",
    "manifest.bad-size": "A value is not a size such as `64KiB` or `1MiB`.",
    "manifest.bad-substitution": "A `${` does not start a variable, or the variable's value is "
    "not text.",
    "manifest.bad-value": "A value has the right type, but its key does not allow it.",
    "manifest.duplicate-component": "Two `[[component]]` tables have the same name.",
    "manifest.missing-key": "A required key is missing.",
    "manifest.no-flow": "The manifest has no flow.",
    "manifest.not-found": "The manifest does not exist.",
    "manifest.not-utf8": "The manifest is not UTF-8.",
    "manifest.setting-unknown": "A `TORVYN_*` variable or an option names an unknown setting.",
    "manifest.syntax": "The manifest is not valid TOML.",
    "manifest.too-deep": "Tables or arrays of the manifest are nested too deeply.",
    "manifest.unknown-key": "A table has an unknown key.",
    "manifest.unreadable": "The manifest exists but cannot be read.",
    "manifest.unsupported": "A value is valid, but this build does not support it.",
    "manifest.variable-undefined": "The manifest uses an environment variable that is not set.",
    "manifest.wrong-type": "A value has the wrong type, such as a string for a number.",
    # link: the flows of the manifest
    "link.bad-override": "A `--config`, `--input` or `--output` does not fit the flow.",
    "link.bad-place": "A `place` is invalid, or the nodes of its group cannot have it.",
    "link.bad-policy": "An `on_error` is invalid, or its keys do not fit together.",
    "link.bad-ports": "A router has no ports, or its ports are not names.",
    "link.bad-run": "The component does not support the node's `run` mode.",
    "link.bad-value": "A value of a flow, node or edge is invalid.",
    "link.capability-bad": "A value is not a valid capability.",
    "link.capability-denied": "A component requests a capability that it is not granted.",
    "link.grant-unknown": "`[security.grants.NAME]` names an unknown component.",
    "link.capability-unasked": "Warning: a component is granted more than it requests.",
    "link.capability-wished": "Warning: a component is not granted an optional capability.",
    "link.component-construct": "A component's `__init__` failed or needs arguments.",
    "link.component-import": "A component's file cannot be imported.",
    "link.component-many-classes": "A component's file has several classes with a role.",
    "link.component-missing": "The folder or file of a declared component does not exist.",
    "link.component-no-class": "A component's file has no class with a role.",
    "link.component-outdated": "Warning: a component was built before its files were changed.",
    "link.component-unknown": "A node names an unknown component.",
    "link.component-unsupported": "The artifact that a node names is not a component for the "
    "sandbox.",
    "link.cycle": "The edges form a cycle.",
    "link.dead-end": "The outputs of a node reach no sink.",
    "link.edge-repeated": "Two edges connect the same port to the same node.",
    "link.engine-input": "The input of an engine does not come from a `request`.",
    "link.engine-repeated": "A flow has two engines with an input.",
    "link.entry-unknown": "The class that `entry` names is not a component.",
    "link.flow-ambiguous": "You named no flow, and the manifest has none or several.",
    "link.flow-unknown": "The manifest has no flow with this name.",
    "link.input-port-unknown": "An edge leads to an unknown input port.",
    "link.bad-key": "A component cannot have a `key`.",
    "link.interface-mismatch": "A node's `interface` differs from that of its component.",
    "link.interface-unknown": "A node's `interface` is unknown.",
    "link.keys-exceed-memory": "Warning: a node may have more keys than its memory is enough for.",
    "link.lock-mismatch": "A component differs from torvyn.lock.",
    "link.lock-outdated": "Warning: a component has changed since torvyn.lock was written.",
    "link.memory-limit": "Warning: a flow may use more memory than the control group of its "
    "process allows.",
    "link.memory-uncounted": "Warning: the memory of a component in the process is not bounded: "
    "its `max_memory` counts payloads only.",
    "link.method-missing": "A component lacks the method of its role.",
    "link.mixed-carriers": "The edges of a flow that survive its process have different carriers.",
    "link.no-namespace": "Parts of a flow on several machines need a namespace that is set.",
    "link.no-broker": "A part of a flow cannot run alone: no broker connects it with the others.",
    "link.no-sink": "The flow has no sink.",
    "link.no-source": "The flow has no source.",
    "link.node-unknown": "An edge, an `on_error` or an option names an unknown node.",
    "link.open-ends": "A flow that a program feeds or iterates has more than one open end.",
    "link.over-budget": "The nodes and queues of a flow may use more than its `max_memory`.",
    "link.priority-unused": "Warning: the priority of a flow has no effect.",
    "link.port-unconnected": "A router's port has no edge and is not in `ignored_ports`.",
    "link.port-unknown": "An edge starts at an unknown output port.",
    "link.request-repeated": "A flow has two `request` sources.",
    "link.request-unanswered": "A `request` leads to no engine.",
    "link.replica-unknown": "A segment has no replica with this number.",
    "link.segment-cycle": "What a flow sends over a broker comes back to the nodes that sent it.",
    "link.segment-unknown": "The flow has no segment with this name.",
    "link.sink-has-output": "An edge starts at a sink.",
    "link.source-has-input": "An edge leads to a source.",
    "link.too-many-edges": "A port has more than 16 edges.",
    "link.unreachable": "No source leads to a node.",
    # sandbox: WebAssembly components
    "sandbox.audit-unwritable": "The sandbox's audit file cannot be opened.",
    "sandbox.compile-failed": "The source code of a component does not compile.",
    "sandbox.contract": "A component's exports do not match a role of the contract.",
    "sandbox.file-unwritable": "The result of a build cannot be written.",
    "sandbox.import": "A component imports something that the host does not provide.",
    "sandbox.invalid": "A file is not a valid WebAssembly component.",
    "sandbox.too-complex": "A component is too complex to compile, or creates too many instances.",
    "sandbox.wit-invalid": "The WIT of a project or a component is invalid.",
    "sandbox.method-unsupported": "A Python component has a method that the sandbox cannot call.",
    "sandbox.no-role": "The source code of a component does not have exactly one role.",
    "sandbox.source-missing": "The folder of a component has nothing to build.",
    "sandbox.toolchain-missing": "The tools that build a component are not installed.",
    "sandbox.unfit": "A component uses something that its role does not have.",
    # artifact: projects and components as OCI artifacts
    "artifact.bad-epoch": "`SOURCE_DATE_EPOCH` is not a number of seconds.",
    "artifact.bad-lock": "torvyn.lock is damaged, or another version of torvyn wrote it.",
    "artifact.bad-path": "An artifact has a file with an invalid path, or two with the same one.",
    "artifact.bad-pattern": "A pattern of files to pack is invalid, or matches nothing.",
    "artifact.bad-reference": "A text is not a reference to an artifact, or not a tag.",
    "artifact.bad-target": "`torvyn pack` cannot compile code for a target.",
    "artifact.credentials-unusable": "The logins of this user for registries cannot be read.",
    "artifact.cache-exposed": "Other users can write to the folder of unpacked artifacts.",
    "artifact.digest-mismatch": "A file does not have the content that its digest names.",
    "artifact.key-exists": "A file has the name of the key to generate.",
    "artifact.key-exposed": "Other users can read a private key.",
    "artifact.key-invalid": "A file is not a key of a supported kind, or its passphrase is wrong.",
    "artifact.key-missing": "The file of a key does not exist, or cannot be read.",
    "artifact.key-unwritable": "The file of a new key cannot be written.",
    "artifact.invalid": "An artifact or the layout that holds it is malformed.",
    "artifact.not-cached": "An artifact is not on this machine, and its registry is not asked.",
    "artifact.lock-mismatch": "A file that was not built here differs from torvyn.lock.",
    "artifact.lock-outdated": "`torvyn pack --locked` found that torvyn.lock would change.",
    "artifact.not-found": "A layout or a registry has no artifact with this tag or digest.",
    "artifact.outside": "A file that the project needs is outside its folder.",
    "artifact.package-missing": "Artifacts need a package that is not installed.",
    "artifact.policy-invalid": "The trust policy of this machine cannot be read or is invalid.",
    "artifact.registry-denied": "A registry requires a login, or does not allow the request.",
    "artifact.registry-failed": "A registry answered with an error, or broke its answer off.",
    "artifact.registry-slow": "A registry sends an artifact more slowly than the limit.",
    "artifact.registry-unreachable": "A registry cannot be reached.",
    "artifact.registry-unsafe": "A registry asked for something that would not be safe, such as a "
    "redirect to an address without TLS.",
    "artifact.registry-untrusted": "A registry has no certificate that this machine trusts.",
    "artifact.signature-expired": "The signatures of an artifact are too old.",
    "artifact.signature-mismatch": "The signatures of an artifact belong to something else.",
    "artifact.signature-missing": "An artifact is not signed, and the trust policy requires it.",
    "artifact.signature-untrusted": "Too few of the trusted keys have signed an artifact.",
    "artifact.stale-tag": "A tag was not looked up: the artifact that it last named is used.",
    "artifact.tag-exists": "A registry has another artifact with this tag.",
    "artifact.too-large": "An artifact exceeds a limit on its size or on its number of files.",
    "artifact.unreadable": "A file of an artifact does not exist, or cannot be read.",
    "artifact.unwritable": "A file of an artifact cannot be written.",
    "artifact.wheel-missing": "An artifact has no wheel of a package for this machine.",
    "artifact.wheels-failed": "`torvyn pack --with-wheels` cannot download a wheel.",
    # reactor: running flows
    "reactor.already-ran": "A flow was started or changed after its start, or fed after its end.",
    "reactor.busy": "Two callers drove a flow at once, or one of its components did.",
    "reactor.deadline-exceeded": "The flow exceeded its deadline.",
    "reactor.feed-full": "The flow accepted only some of the fed items, because a stage is too "
    "slow.",
    "reactor.has-sink": "A flow that ends in a sink was iterated.",
    "reactor.has-source": "A flow that has a source was fed.",
    "reactor.init-failed": "A component's `init` failed, so the flow did not start.",
    "reactor.init-timeout": "A component's `init` exceeded its time limit.",
    "reactor.memory-exceeded": "A node exceeded its `max_memory`.",
    "reactor.name-taken": "The flow already has a node with this name.",
    "reactor.no-sink": "A flow without a sink was run or started.",
    "reactor.no-source": "A flow without a source was run, started or iterated.",
    "reactor.not-started": "`wait` was called on a flow that was not started.",
    "reactor.panic": "The reactor failed. This is a bug in torvyn.",
    "reactor.queue-full": "A queue with the policy `error` was full.",
    # swap: exchanging a component of a running flow; the old component goes on
    "swap.busy": "A component was not between two elements within the time of the swap.",
    "swap.ended": "A node ended before its component was exchanged.",
    "swap.graph-changed": "The nodes or edges of a flow have changed, and no new flow can "
    "take over.",
    "swap.no-memory": "The process has no memory for two versions of a component.",
    "swap.node-unknown": "The flow has no node with this name.",
    "swap.not-running": "The flow is not running, so nothing can be exchanged.",
    "swap.returned": "A new component failed on trial, and the old one has its node again.",
    "swap.state-lost": "The old component holds a state that the new one would not get.",
    "swap.state-refused": "The old component's `snapshot` or the new one's `restore` failed.",
    "swap.unfit": "The new component has another role, other ports or another form than its node.",
    # cluster: flows on several machines
    "cluster.bad-resource": "A group needs a resource that Kubernetes cannot name or divide.",
    "cluster.flow-runs": "A flow runs already, with a broker of its own.",
    "cluster.folder-unusable": "The folder for the state of a local cluster cannot be used.",
    "cluster.group-crashes": "The process of a group died again and again.",
    "cluster.group-died": "The process of a group died, and its flow saves no state.",
    "cluster.local-edge": "A flow with an edge on the disk of one machine cannot run on several.",
    "cluster.no-room": "A group needs more than any machine of the cluster has.",
    "cluster.package-missing": "A part of a cluster needs a package that is not installed.",
    "cluster.port-taken": "Another process listens on the port of a broker or of Ray.",
    "cluster.project-too-large": "The files of a project are too large to be sent to machines.",
    "cluster.ray-in-use": "A program is connected to a Ray cluster already.",
    "cluster.ray-unavailable": "A Ray cluster cannot be started or reached.",
    "cluster.runs-already": "A local cluster runs with other options than `up` asks for.",
    "cluster.start-failed": "nats-server or Ray ended while it started, or was not ready in time.",
    "cluster.state-unreadable": "The state file of a local cluster cannot be read.",
    "cluster.stop-failed": "A process of a local cluster does not end, although it was killed.",
    # cli: the command line
    "cli.bad-usage": "The arguments of the command do not fit together.",
    "cli.bad-value": "An option or argument has an invalid value.",
    "cli.baseline-unreadable": "The file of `bench --compare` cannot be read.",
    "cli.baseline-unusable": "The file of `bench --compare` is not a result of this flow.",
    "cli.bug": "torvyn failed unexpectedly. This is a bug in torvyn.",
    "cli.component-unknown": "The component that `build` should build does not exist.",
    "cli.file-exists": "A command that creates files does not overwrite others.",
    "cli.file-unwritable": "A file that a command creates cannot be written.",
    "cli.history-unusable": "The file of `chat --history` is not a conversation.",
    "cli.input-unreadable": "A file with a prompt or a conversation cannot be read.",
    "cli.input-unusable": "The prompt is empty or not text.",
    "cli.missing-argument": "A required option or argument is missing.",
    "cli.flow-unknown": "No running flow has this name or process, or several have it.",
    "cli.no-systemd": "systemd does not manage this machine, so `torvyn service` cannot either.",
    "cli.nothing-stored": "The flow has no `disk` edge and no checkpoint, so it stores nothing.",
    "cli.nothing-measured": "The flow that `bench` runs produced no elements.",
    "cli.output-failed": "Standard output cannot be written, for example because a disk is full.",
    "cli.reload-failed": "A running flow did not answer, or its files have changed again.",
    "cli.regressed": "`bench --compare` found the flow slower than the threshold allows.",
    "cli.service-unknown": "There is no service of this name.",
    "cli.systemd-failed": "A command of systemd failed.",
    "cli.unknown-command": "The command is unknown.",
    "cli.unknown-option": "The command does not have this option.",
}
