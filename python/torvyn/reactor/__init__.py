"""The reactor: a Plan becomes a running Flow.

flow               the flow in a program: run it, iterate it
flow_feed          feeds a flow without a source
flow_swap          exchanges components of a running flow
flow_builder       nodes and edges to a Plan
project            a project on disk, opened
run                one run of a Plan
carriers           durable edges and checkpoints
runners            how a component is called: inline, thread, async, guest
stages             executors of stages that run outside the turns
swap               the exchange of a component between two elements
threads            workers, watchdog, abandoned threads
loop_driver        drives flows on an event loop
loop_waker         wakes an event loop
stepper            drives a flow by hand, for tests
statistics         the statistics as records
cpu_time           the CPU time of a thread or a task
native_statistics  the native counters as statistics
health             whether a running flow works: it moves, or has a reason not to
failures           native failures to exceptions
source_line        the line of the user's code that raised

A flow is driven by its caller or, once started, by worker threads.
"""

from torvyn.reactor.flow import Flow
from torvyn.reactor.project import Project, load
from torvyn.reactor.statistics import EdgeStatistics, NodeStatistics, Statistics

__all__ = ["EdgeStatistics", "Flow", "NodeStatistics", "Project", "Statistics", "load"]
