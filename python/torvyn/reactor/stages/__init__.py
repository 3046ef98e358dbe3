"""The procedures of stages that run outside the turns, each written once.

A procedure is a coroutine: it takes tasks from a native port, calls the component and gives the
results back. Where it has to wait it asks its `Host`, which blocks a thread, awaits on an event
loop, or suspends until somebody moves it by hand.

host       what a procedure may wait for           elements   process, evaluate, route, ingest, push
procedure  tasks, credit, failures, emitting       source     pull, __iter__, __aiter__
lockstep   a sync stream under a host that suspends   stream   torvyn.stream
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
