"""The machine that the process runs on: what it may use, and who supervises it.

cgroups         the limits of the control group, version 1 or 2
resources       the memory and the CPUs that the process may use, and how much memory it does use
files           what must survive a power failure
systemd_notify  messages to systemd: ready, alive, stopping

Nothing here is cached: limits may change while the process runs.
"""
