"""The reactor: a Plan becomes a running Flow.

Takes what `link` made, instantiates the components, drives their calls through the native core, and
gives the elements, the statistics and the end. Flows are driven by their caller or, once started,
by worker threads.
"""

from torvyn.reactor.flow import Flow
from torvyn.reactor.project import Project, load
from torvyn.reactor.statistics import EdgeStatistics, NodeStatistics, Statistics

__all__ = ["EdgeStatistics", "Flow", "NodeStatistics", "Project", "Statistics", "load"]
