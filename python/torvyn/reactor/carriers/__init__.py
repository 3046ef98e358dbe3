"""Edges that leave the process, and the checkpoints of the parts between them.

wired_plan      the Plan with the two ends of every durable edge as nodes, and its segments
edge_ends       the two ends of an edge, as components
disk_edge       what one edge has stored, supplied and settled
number_ranges   sets of sequence numbers
committer       makes batches, positions and checkpoints durable together
returned_letters  dead letters on their way back to the node that refused them
carrier_thread  decides what is committed when, reads the backlog, commits the end
outage          what happens while the disk or the broker fails
checkpoints     saves and restores the states of components
edge_account    the statistics of a durable edge
nats            edges that a NATS server carries
durable_run     all of it, for one run of a flow

A durable edge cuts a flow into segments. What a segment hands over becomes durable together with
what it had read; then its source may forget it.
"""
