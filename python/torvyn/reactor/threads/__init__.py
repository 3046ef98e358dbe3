"""Threads that the reactor owns.

workers        the worker threads of started flows
watchdog       calls back when a time limit passes
time_limits    the time limits of one run
stuck_calls    which component holds a thread, and where in its code
abandonment    ends a run whose component never returns
spare_threads  reusable threads for calls that may block
"""
