"""Failures: from the fields that the native core reports to the exception a person reads."""

from __future__ import annotations

from typing import Any

from torvyn.contract import Element, Output
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
from torvyn.link.plan import NodePlan, Plan

_BY_KIND: dict[str, type[ComponentError]] = {
    cls.default_code.partition(".")[2]: cls
    for cls in (InvalidInput, Unavailable, Internal, DeadlineExceeded, Fatal)
}


def exception_of(
    plan: Plan, wiring: list[tuple[str, str, str]], raw: dict[str, Any]
) -> BaseException:
    """The exception for a native failure, with node, element and cause."""
    kind = raw["kind"]
    if kind == "component":
        return _component_failure(plan, raw)
    if kind == "queue-full":
        source, port, target = wiring[raw["edge"]]
        return FlowError(
            "reactor.queue-full",
            f"the queue from `{source}:{port}` to `{target}` is full and its policy is `error`",
            hint='raise queue_depth, or choose backpressure = "block"',
        )
    if kind == "memory-exceeded":
        node = plan.nodes[raw["node"]]
        return _at(
            FlowError(
                "reactor.memory-exceeded",
                f"node `{node.name}` used more memory than it may: {raw['message']}",
                hint="raise the node's max_memory, or let it hold less",
            ),
            plan,
            node,
        )
    if kind == "deadline-exceeded":
        return FlowError(
            "reactor.deadline-exceeded",
            f"flow `{plan.name}` was not done within {plan.deadline_s:g} s",
            hint="raise the flow's deadline, or find the slow node with `torvyn trace`",
        )
    return BugError("reactor.panic", f"the reactor failed: {raw['message']}")


def _component_failure(plan: Plan, raw: dict[str, Any]) -> BaseException:
    node, cause = plan.nodes[raw["node"]], raw["exception"]
    if cause is not None and not isinstance(cause, Exception):
        return cause  # type: ignore[no-any-return]
    on = on_element(raw["sequence"])
    where = f"node `{node.name}`{component_of(node)} failed in `{raw['method']}`{on}"
    # A guest may repeat what it read from its environment.
    message = plan.redact(raw["message"])
    if raw["error_kind"] == "contract":
        code = cause.code if isinstance(cause, TorvynError) else "contract.wrong-result"
        error: ContractError | ComponentError = ContractError(code, f"{where}: {message}")
    else:
        failed = _BY_KIND[raw["error_kind"]](f"{where}: {said(cause, message)}")
        failed.node, failed.sequence = node.name, raw["sequence"]
        error = failed
    error.__cause__ = cause
    hint = getattr(cause, "hint", None)
    if hint:
        first = error.diagnostics[0]
        error.diagnostics = (Diagnostic(first.code, first.message, first.location, hint),)
    return _at(error, plan, node)


def component_of(node: NodePlan) -> str:
    """The component of a node in the sandbox, where its name is another: nothing else tells it."""
    ref = node.component
    is_guest = getattr(ref.instance, "is_guest", False)
    name = ref.name if ref.kind == "wasm" else ref.instance.name if is_guest else node.name
    return "" if name == node.name else f" (component `{name}`)"


def on_element(sequence: int | None) -> str:
    return "" if sequence is None else f" on element {sequence}"


def said(cause: BaseException | None, message: str) -> str:
    """What went wrong, in the exception's words."""
    if cause is None or isinstance(cause, TorvynError):
        return str(cause) if cause is not None else message
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__


def _at(error: TorvynError, plan: Plan, node: NodePlan) -> TorvynError:
    path = f"flow.{plan.name}.nodes.{node.name}"
    place = node.location
    file, line, column = (place.file, place.line, place.column) if place else (None, None, None)
    return error.at(Location(file, line, column, path))


def init_failure(plan: Plan, node: NodePlan, cause: BaseException) -> BaseException:
    """A component that did not start."""
    if not isinstance(cause, Exception):
        return cause
    if isinstance(cause, TorvynError) and not isinstance(cause, ComponentError):
        return _at(cause, plan, node)
    why = plan.redact(said(cause, str(cause)))
    error = FlowError(
        "reactor.init-failed",
        f"node `{node.name}`{component_of(node)} failed in `init`: {why}",
        hint=getattr(cause, "hint", None),
    )
    error.node = node.name
    error.__cause__ = None if node.component.kind == "wasm" else cause
    return _at(error, plan, node)


def init_timeout(plan: Plan, node: NodePlan) -> TorvynError:
    error = FlowError(
        "reactor.init-timeout",
        f"node `{node.name}` was not ready within {node.init_timeout_s:g} s",
        hint="raise the node's init_timeout",
    )
    return _at(error, plan, node)


def refused(items: list[Any], message: str) -> TorvynError:
    """What was fed could not be taken in."""
    for item in items:
        if not isinstance(item, (str, bytes, Output, Element)):
            return ContractError(
                "contract.wrong-result",
                f"a flow is fed with str, bytes, Output or Element, not {type(item).__name__}",
            )
    return FlowError("reactor.memory-exceeded", f"the flow is fed too much: {message}")


def busy(plan: Plan) -> TorvynError:
    """Two want to run the turns of one flow."""
    return FlowError(
        "reactor.busy",
        f"flow `{plan.name}` is being driven already",
        hint="a flow is driven by one at a time: its workers, one thread, or one event loop, "
        "and never from inside its own components",
    )
