"""The machine that the process runs on: what it may use, who supervises it, and what else runs
there.

cgroups         the limits of the control group, version 1 or 2
resources       the memory, the CPUs and the open files that the process may use
fault_signals   the handlers of faults, which the sandbox needs
processes       processes that outlive the command that started them
native_parts    the parts of the native module that this build has
local_cluster   the broker and the Ray cluster that `torvyn cluster up` runs
broker_login    who the flows of a project are at their broker

Nothing here is cached: limits may change while the process runs.
"""
