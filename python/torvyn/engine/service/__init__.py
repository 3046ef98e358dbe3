"""Flows that answer requests."""
