"""Threads that the reactor owns: workers, the watchdog, and spares for calls that may block."""
