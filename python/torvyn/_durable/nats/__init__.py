"""Edges that a NATS server carries: segments of a flow in several processes.

names     what a flow, its edges and its batches are called on the broker
startup   one run of the segments in this process: streams, checks, ownership
backend   makes their progress durable on the broker
edges     the two ends of an edge, what was read, and which writers have ended
entry     what a segment has saved, and which process owns it
failures  why a flow cannot run, or cannot go on
"""
