"""Connections of components, and the threads and loops that serve them.

sockets      addresses, listeners, connections that are gone
inbox        between the thread that receives and the source that pulls
nats_client  a connection to NATS servers that comes back
jetstream    reads a durable consumer of a NATS stream
"""
