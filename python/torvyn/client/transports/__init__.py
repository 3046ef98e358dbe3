"""The transports of the client: SSE, WebSocket and gRPC behind one interface."""
