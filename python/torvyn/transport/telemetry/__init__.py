"""What a server reports about itself.

metrics      counters and gauges, in Prometheus' format
exported_metrics  the same figures, for a collector
pool_metrics  the metrics of pools
histogram    distributions of durations and sizes
instances    the answers that run now and that ended recently
call_reports  what is reported when a call starts and ends
request_log  one line per request
call_span    one span per answer
"""
