"""Durable: logs of batches and checkpoints on disk, one SQLite database per flow.

SQLite is that of the native module: Python's own releases the interpreter in every statement.
The store knows no elements: a row is an opaque batch of bytes with the sequence numbers it covers.
Whatever `commit` returned from survives kill -9 and a power failure. Damage is found, counted and
reported as ranges of sequence numbers; it never prevents a start.

records      what goes into the store and what comes out
failures     the errors of the store, and what SQLite's errors mean
store        `DurableStore`: commits, reads, checkpoints, statistics
start_wait   how long the start of a flow waits for its disk, or its broker
session      the open database: reconnects after failures, salvages damage
admission    what a transaction changes, and what the limits make of it
catalog      the logs that a database has
log_state    the account of one log: positions, holes, counts
log_rows     the rows of one log: append, settle, drop, read, quarantine
state_log    the states of a segment as a log of changes
checkpoints  that log in the database
dead_letters  elements that a node refused for good
inspection   looks into a store without changing it
clock        ages by the wall clock and by the time since boot
disk         the files, and what can go wrong with them
"""

from torvyn.durable.checkpoints import StateGoneError
from torvyn.durable.failures import StoreUnavailable
from torvyn.durable.inspection import StoreReport, inspect_store, log_statistics
from torvyn.durable.records import (
    MIN_LOG_BYTES,
    Append,
    ClockStep,
    LogOptions,
    LogStatistics,
    LostRange,
    Row,
    StoreState,
    Transaction,
)
from torvyn.durable.state_log import Checkpoint, SavedState, StateLog
from torvyn.durable.store import DurableStore

__all__ = [
    "MIN_LOG_BYTES",
    "Append",
    "Checkpoint",
    "ClockStep",
    "DurableStore",
    "LogOptions",
    "LogStatistics",
    "LostRange",
    "Row",
    "SavedState",
    "StateGoneError",
    "StateLog",
    "StoreReport",
    "StoreState",
    "StoreUnavailable",
    "Transaction",
    "inspect_store",
    "log_statistics",
]
