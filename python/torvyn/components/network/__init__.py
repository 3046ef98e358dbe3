"""Connections of components, and the threads and loops that serve them.

sockets              addresses, listeners, connections that are gone
line_receiver        what the sources `tcp`, `udp` and `serial` share
socket_listener      what the sources `tcp` and `udp` share
socket_sink          what the sinks `tcp` and `udp` share
inbox                between the thread that receives and the source that pulls
poll_schedule        when a source that polls is due, and the time of a reading
reconnecting_client  keeps a connection on the background loop
nats_client          a connection to NATS servers
jetstream            reads and writes NATS JetStream streams
opcua_client         a connection to an OPC UA server
modbus_device        a Modbus device: named registers with types
serial_port          a serial port, as its options describe it
"""
