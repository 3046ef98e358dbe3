"""The procedures of stages that run outside the turns.

host       how a procedure waits: blocks a thread, awaits on a loop, or suspends
procedure  what all procedures share: tasks, credit, failures
elements   one call per element
source     `pull`, `__iter__`, `__aiter__`
stream     one generator over the whole input
lockstep   a sync generator under a host that suspends

A procedure is a coroutine: it takes tasks from a native port, calls the component, and returns the
results. It is written once and runs under every host.
"""

from torvyn._native import Port
from torvyn.contract import Component
from torvyn.contract.inspection import has_attribute
from torvyn.reactor.stages.elements import ElementProcedure
from torvyn.reactor.stages.host import Host, run_blocking
from torvyn.reactor.stages.procedure import Procedure
from torvyn.reactor.stages.source import SourceProcedure
from torvyn.reactor.stages.stream import StreamProcedure

__all__ = ["Host", "Procedure", "procedure_of", "run_blocking"]


def procedure_of(component: Component, role: str, port: Port, host: Host) -> Procedure:
    if role == "source":
        return SourceProcedure(component, role, port, host)
    if has_attribute(component, "stream_function"):
        return StreamProcedure(component, role, port, host)
    return ElementProcedure(component, role, port, host)
