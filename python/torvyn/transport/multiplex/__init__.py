"""Many streams over one connection: what WebSocket and gRPC sessions share."""
