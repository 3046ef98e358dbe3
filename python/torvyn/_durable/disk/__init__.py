"""Edges and states on disk: one SQLite database per flow.

backend   batches, settled positions and checkpoints of a flow, made durable together
store     the store of a flow: commits, reads, limits; salvages damage
log       the account and the rows of one log
catalog   the logs that a database has
states    the saved states of segments
clock     ages by the wall clock and by the time since boot
files     connection, WAL, reserve and positions, and their failures
database  the schema, and what SQLite's errors mean
salvage   copies what is readable from a damaged database, and looks into a store

SQLite is that of the native module: Python's own releases the interpreter in every statement.
"""
