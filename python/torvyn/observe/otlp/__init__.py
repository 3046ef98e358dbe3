"""OpenTelemetry's protocol: spans and metrics to a collector, over HTTP or gRPC.

exporter     collects spans and metrics and sends them, from its own thread
spool        what could not be sent, on disk
messages     spans and metrics as protobuf messages
wire         the encoding of protobuf fields
http_sender  requests over HTTP
grpc_sender  requests over gRPC
sender       what a sender is, and the address of a collector
"""

from torvyn.observe.otlp.exporter import OtlpExporter

__all__ = ["OtlpExporter"]
