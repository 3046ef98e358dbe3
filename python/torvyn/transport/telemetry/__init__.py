"""What a server reports about itself.

metrics      counters and gauges, in Prometheus' format
histogram    distributions of durations and sizes
instances    the metrics of all processes on one port
request_log  one line per request
tracing      one span per answer
"""
