"""gRPC: the `torvyn.v1.Inference` service on the same event loop.

server    the server
service   the calls
messages  gRPC messages to request bodies
wire      frames to gRPC messages
status    rejections to gRPC statuses
"""
