"""Durable: what of a flow outlives its process, on disk or on a NATS server.

segments      the Plan, cut at its durable edges, and their ends
durable_run   one run of a flow that survives its process
committer     the thread that makes a flow durable
checkpoint    the states of components: taken at rest, stored, restored
state_log     the states of a segment as a log of changes
backend       what goes into a store and what comes out
outage        tries again while a disk or a broker fails
dead_letters  elements that a node refused for good
disk          one SQLite database per flow
nats          edges that a NATS server carries

The stores know no elements: a row is an opaque batch of bytes with the sequence numbers it covers.
Whatever `commit` returned from survives kill -9 and a power failure. Damage is found, counted and
reported as ranges of sequence numbers; it never prevents a start.
"""
