"""Benchmarks: one file per question, one per peer.

Every question asserts that all entries did the same work before it times any of them. Nothing here
is a unit test.
"""
