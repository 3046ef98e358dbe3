"""The executors of stages that run outside the turns.

host              how an executor waits: blocks a thread, awaits on a loop, or suspends
executor          what all executors share: tasks, credit, failures
element_executor  one call per element
batch_executor    one call for what waits
source_executor   `pull`, `pull_batch`, `__iter__`, `__aiter__`
stream_executor   one generator over the whole input
lockstep          a sync generator under a host that suspends

An executor is a coroutine: it takes tasks from a native port, calls the component, and returns the
results. It is written once and runs under every host.
"""

from torvyn._native import Port
from torvyn.contract import Component
from torvyn.contract.batch_methods import batch_method_of
from torvyn.contract.enums import Role
from torvyn.contract.inspection import has_attribute
from torvyn.reactor.stages.batch_executor import BatchExecutor
from torvyn.reactor.stages.element_executor import ElementExecutor
from torvyn.reactor.stages.executor import StageExecutor
from torvyn.reactor.stages.host import Host, run_blocking
from torvyn.reactor.stages.source_executor import SourceExecutor
from torvyn.reactor.stages.stream_executor import StreamExecutor

__all__ = ["Host", "StageExecutor", "make_executor", "run_blocking"]


def make_executor(component: Component, role: str, port: Port, host: Host) -> StageExecutor:
    if role == Role.SOURCE:
        return SourceExecutor(component, role, port, host)
    if has_attribute(component, "stream_function"):
        return StreamExecutor(component, role, port, host)
    if batch_method_of(component, role) is not None:
        return BatchExecutor(component, role, port, host)
    return ElementExecutor(component, role, port, host)
