"""Many streams over one connection: what WebSocket and gRPC sessions share.

multiplexer     the streams of one channel
channel         the connection that they share
client_message  a client's message, parsed
open_channels   the channels that are open
"""
