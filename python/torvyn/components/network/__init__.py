"""Connections of components, and the threads and loops that serve them.

sockets        addresses, listeners, connections that are gone
inbox          between the thread that receives and the source that pulls
polling        when a source that polls is due
nats_client    a connection to NATS servers that comes back
jetstream      reads and writes NATS JetStream streams
modbus_device  a Modbus device: named registers with types
opcua_client   a connection to an OPC UA server that comes back
serial_port    a serial port, as its options describe it
"""
