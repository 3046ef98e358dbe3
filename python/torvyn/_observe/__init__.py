"""Observe: reports what flows and servers do. It never changes what they do.

logs           log records on standard error, as text or JSON, without secrets
spans          one span per sampled answer
metrics        the metrics of a flow and of the process
telemetry      what a process exports, by its settings
otlp_exporter  sends spans and metrics to a collector from its own thread
otlp_spool     what could not be sent, on disk
otlp_messages  spans and metrics as OTLP's requests
otlp_sender    sends requests, over HTTP or gRPC
"""
