"""Flows that run for months: who watches them, and what they report.

supervisor     tells systemd that a flow is ready, works or stops
"""
