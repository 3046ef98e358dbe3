"""Runs a deployment: its current generation in a process of its own, exchanged when it changes.

A generation cannot take down what would replace it. The exchange: the new process loads and checks
everything beside the old one, the old one stops at an element boundary and saves its state, the
new one starts from that state. Then it is observed: it becomes good, or the fallback comes back.

generation_process  the process of one generation, and the messages it sends
trial               is a new generation healthy? Rules without I/O
run_options         its commands and time limits
deployment_run      `DeploymentRun`: starts, exchanges, observes, restarts
"""

from torvyn.edge.running.deployment_run import DeploymentRun
from torvyn.edge.running.run_options import RunOptions

__all__ = ["DeploymentRun", "RunOptions"]
