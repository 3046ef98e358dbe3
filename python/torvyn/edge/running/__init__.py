"""Runs a deployment: its current generation in a process of its own, exchanged when it changes.

A generation cannot take down what would replace it. The exchange: a new process loads and checks
everything beside the old one. Then the old process swaps the components that have changed and goes
on as the new generation. If it refuses, it stops at an element boundary and saves its state, and
the new process starts from that state. Then the new generation is observed: it becomes good, or the
fallback comes back the same way.

generation_process  the process of one generation, and the messages it sends
processes           starts and ends processes, waits for what they report
project_change      which nodes use the files that differ between two generations
process_swap        has the process that runs go on as another generation
exchange_report     how one generation took the place of another
trial               is a new generation healthy? Rules without I/O
run_records         what a run writes down about its generations
run_options         its commands and time limits
deployment_run      `DeploymentRun`: starts, exchanges, observes, restarts
"""

from torvyn.edge.running.deployment_run import DeploymentRun
from torvyn.edge.running.run_options import RunOptions

__all__ = ["DeploymentRun", "RunOptions"]
