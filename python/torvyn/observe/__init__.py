"""Observe: listens to flows and tells of them; it never steers.

logs    log records and warnings, for people or as JSON, without secrets
spans   answers that are over -> spans, those that are told of
otlp    spans -> a collector, from a thread of its own
"""
