"""The exchange of segments of a running flow whose graph has changed.

rewired_plan        the wired plan of the running flow: what stays, what joins, what leaves
segment_exchange    brings segments to rest, and exchanges them on the carrier thread
graph_installation  puts a new graph into a run
exchanging_carrier  what that asks of the carrier thread
exchangeable_run    a run whose graph can change
"""
