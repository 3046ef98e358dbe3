"""Turns failures that the native core reports into exceptions, and logs those that are tolerated.

An exception names the line of the user's own code that raised it. Of the errors that the policy of
a node tolerates, the first, second, fourth... are logged.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from functools import cache
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

from torvyn._contract.element import Element, Output, json_text
from torvyn._contract.enums import ErrorKind, FailureKind
from torvyn._contract.inspection import class_name, describe_error, is_instance, safe_str
from torvyn._flow.statistics import Statistics
from torvyn._io.other_loops import NOT_ASYNCIO, needs_other_loop
from torvyn._link.component_library import display_path
from torvyn._link.component_traits import is_guest
from torvyn._link.plan import NodePlan, Plan
from torvyn.errors import (
    BugError,
    ComponentError,
    ContractError,
    DeadlineExceeded,
    Diagnostic,
    Fatal,
    FlowError,
    Internal,
    InvalidInput,
    Location,
    TorvynError,
    Unavailable,
)

_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep


class SourceLine(NamedTuple):
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in `{self.function}`"


def source_line(error: BaseException) -> SourceLine | None:
    """The last line outside of torvyn and of libraries; of a library if there is no other."""
    calls = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _file(frame).startswith((_PACKAGE, "<"))
    ]
    own = [call for call in calls if not _file(call[0]).startswith(_libraries())]
    if not calls:
        return None
    frame, line = (own or calls)[-1]
    return SourceLine(display_path(_file(frame)), line, frame.f_code.co_qualname)


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename


@cache
def _libraries() -> tuple[str, ...]:
    # Slow to import, and needed only when something fails.
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({sysconfig.get_path(name) + os.sep for name in names})


GENERATION_LOST: Final = "session.generation-lost"
_BY_KIND: dict[str, type[ComponentError]] = {
    cls.default_code.partition(".")[2]: cls
    for cls in (InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal)
}


def make_exception(
    plan: Plan, wiring: list[tuple[str, str, str]], raw: dict[str, Any]
) -> BaseException:
    """The exception for a native failure, with its node, element and cause."""
    kind = raw["kind"]
    if kind is FailureKind.COMPONENT:
        return _component_failure(plan, raw)
    if kind is FailureKind.QUEUE_FULL:
        source, port, target = wiring[raw["edge"]]
        return FlowError(
            "reactor.queue-full",
            f"the queue from `{source}:{port}` to `{target}` is full and its policy is `error`",
            hint='raise queue_depth, or choose backpressure = "block"',
        )
    if kind is FailureKind.MEMORY_EXCEEDED:
        return _memory_failure(plan, raw)
    if kind is FailureKind.DEADLINE_EXCEEDED:
        return FlowError(
            "reactor.deadline-exceeded",
            f"flow `{plan.name}` did not finish within {plan.deadline_s:g} s",
            hint="raise the flow's deadline, or find the slow node with `torvyn trace`",
        )
    return BugError("reactor.panic", f"the reactor failed: {raw['message']}")


def _memory_failure(plan: Plan, raw: dict[str, Any]) -> TorvynError:
    node = plan.nodes[raw["node"]]
    hint = "raise the node's max_memory, or hold less in it"
    if raw["method"] == "hold":
        hint = "hold less in the filter, or raise max_memory of the nodes before it"
    message = f"node `{node.name}` exceeded its memory limit: {raw['message']}"
    error = FlowError("reactor.memory-exceeded", message, hint=hint)
    error.node = node.name
    return _at(error, plan, node)


def _component_failure(plan: Plan, raw: dict[str, Any]) -> BaseException:
    if raw["error_kind"] is not ErrorKind.INTERRUPTED:
        return _named_failure(plan, raw)
    named = _named_failure(plan, {**raw, "error_kind": ErrorKind.FATAL})
    return _interrupt(raw["exception"], named)


def _interrupt(cause: BaseException, named: TorvynError) -> BaseException:
    """A `KeyboardInterrupt`, which ends the program as Ctrl-C does. A note says in which component
    it was raised."""
    cause.add_note(f"in torvyn: {named}")
    return cause


def _code_of(cause: BaseException) -> str | None:
    """The code of the flow's error, if it is not that of its kind."""
    if needs_other_loop(cause):
        return NOT_ASYNCIO
    # What restarts the flow must know that another start will not help.
    is_lost = isinstance(cause, TorvynError) and cause.code == GENERATION_LOST
    return GENERATION_LOST if is_lost else None


def _named_failure(plan: Plan, raw: dict[str, Any]) -> TorvynError:
    node, cause = plan.nodes[raw["node"]], raw["exception"]
    element = element_label(raw["sequence"])
    where = f"node `{node.name}`{component_label(node)} failed in `{raw['method']}`{element}"
    # A guest may repeat a secret from its environment.
    message = plan.redact(raw["message"])
    if raw["error_kind"] is ErrorKind.CONTRACT:
        code = cause.code if isinstance(cause, TorvynError) else "contract.wrong-result"
        error: ContractError | ComponentError = ContractError(code, f"{where}: {message}")
    else:
        failed = _BY_KIND[raw["error_kind"]](
            f"{where}: {error_text(cause, message)}", code=_code_of(cause)
        )
        failed.node, failed.sequence = node.name, raw["sequence"]
        error = failed
    error.__cause__ = cause
    hint = _hint_of(cause)
    if hint:
        first = error.diagnostics[0]
        error.diagnostics = (Diagnostic(first.code, first.message, first.location, hint),)
    return _at(error, plan, node, cause)


_NAMED: Final = ("wasm", "project", "entry-point")
"""The kinds of components that people write and name."""


def component_label(node: NodePlan) -> str:
    """The name of a component, if it differs from its node's."""
    ref = node.component
    instance = ref.instance
    name = instance.name if is_guest(instance) else node.name
    name = ref.name if ref.kind in _NAMED else name
    return "" if name == node.name else f" (component `{name}`)"


def element_label(sequence: int | None) -> str:
    return "" if sequence is None else f" on element {sequence}"


def error_text(cause: BaseException | None, message: str) -> str:
    """The exception's text, or `message` without one."""
    if cause is None:
        return message
    return safe_str(cause) if isinstance(cause, TorvynError) else describe_error(cause)


def _hint_of(cause: BaseException | None) -> str | None:
    """The hint of a torvyn error; a `hint` of another exception may be anything."""
    if isinstance(cause, TorvynError):
        return cause.hint
    library = needs_other_loop(cause)
    if library is None:
        return None
    return f"async components run on asyncio: use asyncio or anyio instead of {library}"


def is_from_outside(error: BaseException) -> bool:
    """Whether the component may not be the cause of its exception: Ctrl-C, which Python raises on
    the main thread, or a cancellation of the task that called the component."""
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
        return task is not None and task.cancelling() > 0
    return False


def _at(
    error: TorvynError, plan: Plan, node: NodePlan, cause: BaseException | None = None
) -> TorvynError:
    """The error with its place: the line in which the component raised, else that of its node."""
    path = f"flow.{plan.name}.nodes.{node.name}"
    at, raised = node.location, None if cause is None else source_line(cause)
    if raised is not None:
        # A traceback shows notes, but not locations.
        error.add_note(f"at {raised}")
        return error.at(Location(raised.file, raised.line, None, path))
    file, line, column = (at.file, at.line, at.column) if at else (None, None, None)
    return error.at(Location(file, line, column, path))


def init_failure(plan: Plan, node: NodePlan, cause: BaseException) -> BaseException:
    """The error of a component that failed in `init`."""
    if isinstance(cause, TorvynError) and not isinstance(cause, ComponentError):
        return _at(cause, plan, node)
    if is_from_outside(cause) and not isinstance(cause, KeyboardInterrupt):
        return cause
    why = plan.redact(error_text(cause, ""))
    error = FlowError(
        "reactor.init-failed",
        f"node `{node.name}`{component_label(node)} failed in `init`: {why}",
        hint=_hint_of(cause),
    )
    error.node = node.name
    error.__cause__ = None if node.component.kind == "wasm" else cause
    _at(error, plan, node, error.__cause__)
    return _interrupt(cause, error) if is_from_outside(cause) else error


def raise_start_failure(plan: Plan, node: NodePlan, error: BaseException) -> NoReturn:
    """Raises what a component raised before the first turn, with its node."""
    if isinstance(error, ContractError):
        first, *rest = error.diagnostics
        message = f"node `{node.name}`{component_label(node)} cannot start: {first.message}"
        error.diagnostics = (Diagnostic(first.code, message, first.location, first.hint), *rest)
        error.args = (message,)
        raise _at(error, plan, node) from error.__cause__
    if is_from_outside(error) or isinstance(error, TorvynError):
        raise error
    raise _start_failure(plan, node, error) from error


def _start_failure(plan: Plan, node: NodePlan, cause: BaseException) -> TorvynError:
    """The error of a source's `__iter__`, the only call between `init` and the first turn."""
    raw = {
        "node": plan.nodes.index(node),
        "exception": cause,
        "error_kind": ErrorKind.INTERNAL if isinstance(cause, Exception) else ErrorKind.FATAL,
        "sequence": None,
        "method": "__iter__",
        "message": "",
    }
    return _named_failure(plan, raw)


def init_timeout(plan: Plan, node: NodePlan) -> TorvynError:
    error = FlowError(
        "reactor.init-timeout",
        f"node `{node.name}` was not ready within {node.init_timeout_s:g} s",
        hint="raise the node's init_timeout",
    )
    return _at(error, plan, node)


def feed_error(items: list[Any], message: str, statistics: Statistics) -> TorvynError:
    """The error for items that a flow cannot take."""
    kinds = (str, bytes, Output, Element)
    for item in items:
        if not any(is_instance(item, kind) for kind in kinds) and json_text(item) is None:
            return ContractError(
                "contract.wrong-result",
                "a flow takes str, bytes, a dict, a dataclass, Output or Element, not "
                f"{class_name(item)}",
            )
    error = FlowError("reactor.memory-exceeded", f"the flow received too much: {message}")
    holder = max(statistics.nodes, key=lambda name: statistics.nodes[name].held_bytes)
    held_bytes = statistics.nodes[holder].held_bytes
    if held_bytes:
        error = FlowError(
            "reactor.memory-exceeded",
            f"the flow received too much: {message}, and node `{holder}` holds {held_bytes} bytes",
            hint=f"hold less in `{holder}`, or raise max_memory of the first node",
        )
        error.node = holder
    return error


def busy_error(plan: Plan) -> TorvynError:
    """The error of a second driver of the same flow."""
    return FlowError(
        "reactor.busy",
        f"flow `{plan.name}` is already being driven",
        hint="drive a flow from one place at a time: its workers, one thread or one event loop, "
        "and never from its own components",
    )


logger = logging.getLogger("torvyn.reactor")


class ErrorLog:
    """Called by the native core, which counts the errors."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(
        self,
        index: int,
        kind: ErrorKind,
        message: str,
        count: int,
        cause: BaseException | None,
        sequence: int | None,
    ) -> None:
        node = self.plan.nodes[index]
        # A dead letter carries its error; of a skipped element only this line is left.
        is_kept = "dead-letter" in (node.on_error.policy, node.on_error.then)
        logger.log(
            logging.INFO if is_kept else logging.WARNING,
            "node `%s`%s failed%s (%d so far, policy `%s`): %s",
            node.name,
            component_label(node),
            element_label(sequence),
            count,
            node.on_error.policy,
            self.plan.redact(error_text(cause, message)),
            exc_info=cause if logger.isEnabledFor(logging.DEBUG) else None,
            extra={
                "node": node.name,
                "kind": str(kind),
                "count": count,
                "sequence": sequence,
                "event": "node.error",
            },
        )


def log_acknowledge_failure(error: BaseException) -> None:
    """A notification has no answer: log its failure and go on."""
    logger.warning("a source failed in `acknowledge`", exc_info=error)
