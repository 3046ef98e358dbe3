"""A flow on a cluster of two machines' worth of Ray, whose parts are killed.

workload   the flow: numbered elements, counted per key in two replicas, written down
machines   a Ray cluster with two raylets besides its head, and a broker
scenarios  kills one part in the middle of a run, and compares the output with what it must be
"""
