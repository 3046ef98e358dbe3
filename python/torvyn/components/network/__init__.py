"""Connections of components, and the threads and loops that serve them.

sockets        addresses, listeners, connections that are gone
inbox          between the thread that receives and the source that pulls
polling        when a source that polls is due
nats_client    a connection to NATS servers that comes back
jetstream      reads a durable consumer of a NATS stream
modbus_device  a Modbus device: named registers with types
"""
