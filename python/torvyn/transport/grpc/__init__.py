"""gRPC: the `torvyn.v1.Inference` service on the same event loop."""
