"""Observe: reports what flows and servers do. It never changes what they do.

logs   log records on standard error, as text or JSON, without secrets
spans  one span per sampled answer
otlp   sends spans to a collector from its own thread
"""
