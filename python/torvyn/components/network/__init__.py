"""Sockets for components, and the threads that read them.

sockets  addresses, listeners, connections that are gone
inbox    between the thread that receives and the source that pulls
"""
