"""One of each: what the package uses of the machine and of the network.

supervision  what a process tells its supervisor: systemd, or the parent that started it
"""
