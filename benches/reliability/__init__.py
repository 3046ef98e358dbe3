"""Reliability: which guarantees hold when something goes wrong. `python -m benches.reliability`.

case    a fault, the limit that must hold, and its measurement
guests  guests for the measurements, and programs in their own process
cases   the cases, one file per question; each defines `CASES`
"""
