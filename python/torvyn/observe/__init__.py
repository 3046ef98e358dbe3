"""Observe: listens to flows and tells of them; it never steers.

logs   the records of the `torvyn` logger, for people or as JSON, without secrets
"""
