"""Runners: each owns one component and calls it, from `init` to `teardown`.

inline_runner     inside the turns: Python, native code and guests
thread_runner     on a daemon thread
async_runner      on an event loop
stepped_runner    step by step, in a simulator
offloaded_node    what thread, async and stepped runners share
lifecycle_driver  drives `init` and `teardown` on a thread or a loop
call_timer        the time limit of async calls
call_recorder     records calls for a trace
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torvyn.components.config import config_text
from torvyn.contract import Component, Context
from torvyn.contract.inspection import is_instance, read_attribute
from torvyn.link.plan import NodePlan
from torvyn.reactor.runners.async_runner import LoopRunner
from torvyn.reactor.runners.inline_runner import GuestRunner, InlineRunner
from torvyn.reactor.runners.lifecycle_driver import Place
from torvyn.reactor.runners.thread_runner import ThreadRunner
from torvyn.sandbox.component import GuestComponent

if TYPE_CHECKING:
    from torvyn._native import NodeHandle
    from torvyn.reactor.runners.stepped_runner import Steps

__all__ = ["Runner", "runner_of"]


class Runner(Protocol):
    """The life of one component in a flow: init, work, stop; or abandon, when it will not end."""

    node: NodePlan
    component: Component
    guest: GuestComponent | None
    """The component, where it runs in the sandbox."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing moves here until the reactor or the component says so. Any thread."""

    def native_work(self, context: Context) -> Any:
        """What the native core calls or exchanges tasks with."""

    def attach(self, handle: NodeHandle) -> None:
        """The node in the native flow, which the component may wake or interrupt."""

    async def init(self, place: Place) -> None:
        """Initialises the component; raises what it raised, or `Overdue`."""

    def work(self) -> None:
        """The flow runs: calls may begin."""

    async def stop(self, place: Place, limit_s: float) -> None:
        """Ends the work and tears down, if `init` has been called; raises as `init` does."""

    def abandon(self) -> None:
        """Nobody waits any more: end and tear down when and as far as possible."""


def runner_of(node: NodePlan, component: Component, steps: Steps | None = None) -> Runner:
    config = node.config or config_text(read_attribute(component, "config"))
    if node.run == "inline":
        kind = GuestRunner if is_instance(component, GuestComponent) else InlineRunner
        return kind(node, component, config)
    if steps is not None:
        return steps.runner(node, component, config)
    return (ThreadRunner if node.run == "thread" else LoopRunner)(node, component, config)
