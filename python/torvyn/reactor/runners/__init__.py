"""Runners: each owns one component and calls it, from `init` to `teardown`.

inline_runner     inside the turns: Python, native code and guests
thread_runner     on a daemon thread
first_step        an inline component on trial, on a thread until its first element is done
async_runner      on an event loop
stepped_runner    step by step, in a simulator
offloaded_runner  what thread, async and stepped runners share
lifecycle_driver  drives `init` and `teardown`, on a thread that waits
async_driver      the same on the loop that drives the flow
call_timer        the time limit of async calls
call_recorder     records calls for a trace
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from torvyn._contract.element import Context
from torvyn._contract.inspection import read_attribute
from torvyn._contract.roles import Component
from torvyn._link.component_traits import is_guest
from torvyn._link.plan import NodePlan
from torvyn.components.config import config_text
from torvyn.reactor.run.cpu_throttle import CpuThrottle
from torvyn.reactor.runners.inline_runner import GuestRunner, InlineRunner

if TYPE_CHECKING:
    from torvyn._native import NodeHandle
    from torvyn._sandbox.component import GuestComponent
    from torvyn.reactor.runners.lifecycle_driver import LifecycleDriver
    from torvyn.reactor.runners.stepped_runner import StepScheduler

__all__ = ["Runner", "make_runner"]


class Runner(Protocol):
    """Calls one component of a flow: `init`, `start`, `stop`; or `abandon` if it does not end."""

    node: NodePlan
    component: Component
    is_offloaded: bool
    """Whether it runs outside the turns."""

    guest: GuestComponent | None
    """The component, if it runs in the sandbox."""

    throttle: CpuThrottle | None
    """Delays a source that uses more than its share of the CPU. Set before the start."""

    @property
    def cpu_ns(self) -> int | None:
        """The CPU time of its calls so far; None if the reactor samples them. From any thread."""

    @property
    def is_idle(self) -> bool:
        """Whether the runner waits for the reactor or the component. From any thread."""

    def native_work(self, context: Context) -> Any:
        """What the native core calls or exchanges tasks with."""

    def attach(self, handle: NodeHandle) -> None:
        """Sets the node of the native flow, which the component may wake or interrupt."""

    def detach(self) -> None:
        """Another component has taken its node, which it must not wake or interrupt any more."""

    async def init(self, driver: LifecycleDriver) -> None:
        """Initializes the component; raises its exception, or `LimitExceeded`."""

    def start(self) -> None:
        """Allows calls of the component: the flow runs."""

    async def acknowledge(self, driver: LifecycleDriver, count: int) -> None:
        """Delivers a source's last acknowledgements, after the last turn."""

    async def stop(self, driver: LifecycleDriver, limit_s: float) -> None:
        """Ends the work and tears down an initialized component; raises as `init` does."""

    def abandon(self) -> None:
        """Ends and tears down as far as possible, without waiting."""


def make_runner(
    node: NodePlan, component: Component, scheduler: StepScheduler | None = None
) -> Runner:
    config = node.config or config_text(read_attribute(component, "config"))
    if node.run == "inline":
        kind = GuestRunner if is_guest(component) else InlineRunner
        return kind(node, component, config)
    if scheduler is not None:
        return scheduler.runner(node, component, config)
    # Imported here: a flow whose components all run inside the turns needs no executors.
    if node.run == "thread":
        from torvyn.reactor.runners.thread_runner import ThreadRunner

        return ThreadRunner(node, component, config)
    from torvyn.reactor.runners.async_runner import AsyncRunner

    return AsyncRunner(node, component, config)
