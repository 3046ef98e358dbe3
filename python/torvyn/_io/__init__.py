"""One of each: what the package uses of the machine and of the network.

files        locks, files and folders that are whole after a crash
backoff      delays between tries, and what a server asks for
supervision  what a process tells its supervisor: systemd, or the parent that started it
"""
