"""Finds the call that blocks a thread, and where in its code it is, for messages about time
limits."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import torvyn
from torvyn._contract.inspection import class_attribute, module_name
from torvyn._contract.roles import METHODS, Component
from torvyn._flow.runner import Runner
from torvyn._link.component_traits import is_guest

_PACKAGE: Final = str(Path(torvyn.__file__).parent)
_PLAIN: Final = {phase: class_attribute(Component, phase) for phase in ("init", "teardown")}
"""The default methods, which do nothing."""
_WRAPPERS: Final = ("torvyn._contract.functions", "torvyn.components.keys.", "torvyn.testing.")
_PHASES: Final = ("init", "flush", "complete", "teardown")


@dataclass(frozen=True, slots=True)
class StuckCall:
    """A call of a component that has not returned."""

    runner: Runner | None
    method: str
    stack: str

    @property
    def description(self) -> str:
        """For instance "node `x` in `push`", as far as it is known."""
        if self.runner is None:
            return "a component"
        return f"node `{self.runner.node.name}` in `{self.method}`"


def may_block(component: Component, phase: str) -> bool:
    """Whether the user's code runs in a phase; built-in components and guests keep their limits."""
    cls = type(component)
    if class_attribute(cls, phase) is _PLAIN[phase]:
        return False
    return not (str(module_name(cls)).startswith("torvyn.") or is_guest(component))


def runs_user_code(component: Component) -> bool:
    """Whether its calls run the user's code, or that of a wrapper around it."""
    module = str(module_name(type(component)))
    return not module.startswith("torvyn.") or module.startswith(_WRAPPERS)


def stack_of(thread_id: int | None) -> str:
    """The component's frames of a thread's stack."""
    frame = None if thread_id is None else sys._current_frames().get(thread_id)
    if frame is None:
        return ""
    summary = traceback.StackSummary.extract(traceback.walk_stack(frame))
    summary.reverse()
    own = [line for line in summary if not line.filename.startswith(_PACKAGE)]
    last_of_ours = [at for at, line in enumerate(summary) if line.filename.startswith(_PACKAGE)]
    called = summary[last_of_ours[-1] + 1 :] if last_of_ours else own
    return "".join(traceback.StackSummary.from_list(called or own or summary).format())


def find_stuck_call(runners: Iterable[Runner], node: int | None = None) -> StuckCall:
    """The call that a thread is in. `node` is the index of the one that the native core calls."""
    runners = list(runners)
    candidates = runners if node is None else [runners[node]]
    for thread_id, frame in sys._current_frames().items():
        for runner in candidates:
            method = _method_at(frame, runner)
            if method is not None:
                return StuckCall(runner, method, stack_of(thread_id))
    if node is None:
        return StuckCall(None, "", "")
    runner = runners[node]
    return StuckCall(runner, METHODS[runner.node.role], "")


def _method_at(frame: FrameType | None, runner: Runner) -> str | None:
    """The component's method that a thread is in; the outermost one."""
    outermost, codes = None, _codes(runner)
    while frame is not None:
        method = codes.get(frame.f_code)
        if method is not None and frame.f_locals.get("self", runner.component) is runner.component:
            outermost = method
        frame = frame.f_back
    return outermost


def _codes(runner: Runner) -> dict[CodeType, str]:
    return dict(_callables(runner.component, METHODS[runner.node.role]))


def _callables(component: Any, role_method: str) -> Iterator[tuple[CodeType, str]]:
    for name in (
        role_method,
        f"{role_method}_batch",
        *_PHASES,
        "__iter__",
        "__aiter__",
        "notify_backpressure",
    ):
        yield from _code_of(getattr(component, name, None), name)
    for name in ("stream_function", "_items"):
        yield from _code_of(getattr(component, name, None), role_method)


def _code_of(function: Any, name: str) -> Iterator[tuple[CodeType, str]]:
    for holder in (function, getattr(function, "__func__", None), getattr(function, "gi_frame", 0)):
        code = getattr(holder, "__code__", None) or getattr(holder, "f_code", None)
        if isinstance(code, CodeType):
            yield code, name
