"""gRPC on the native wire: `torvyn.v1.Inference`, health and reflection.

endpoint    a call from its head to its status
exchange    what carries a call: metadata, messages, status, deadline
inference   the calls of `torvyn.v1.Inference`
health      whether the server accepts requests
reflection  descriptions of the services
messages    gRPC messages to request bodies
wire        frames to gRPC messages
status      rejections to gRPC statuses
packages    whether the packages are installed that it needs
"""
