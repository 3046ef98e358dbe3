"""Closed sets that Python and the native core share: the core returns and compares these members.

They are texts too, so they print, sort and encode as their values.
"""

from __future__ import annotations

from enum import StrEnum


class TextEnum(StrEnum):
    """Members look like their texts, also in records that people print."""

    def __repr__(self) -> str:
        return repr(self.value)

    @classmethod
    def texts(cls) -> tuple[str, ...]:
        """The texts of all members, in order."""
        return tuple(member.value for member in cls)


class Role(TextEnum):
    """What a component does in a flow."""

    SOURCE = "source"
    PROCESSOR = "processor"
    FILTER = "filter"
    ROUTER = "router"
    AGGREGATOR = "aggregator"
    SINK = "sink"


class ConfigKind(TextEnum):
    """What a component takes as its config."""

    TEXT = "text"
    TABLE = "table"
    EITHER = "either"
    NONE = "none"


class FlowState(TextEnum):
    CREATED = "created"
    VALIDATED = "validated"
    INSTANTIATED = "instantiated"
    RUNNING = "running"
    DRAINING = "draining"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TurnStatus(TextEnum):
    """How a turn of a flow ended."""

    OVER = "over"
    OUTPUT = "output"
    AGAIN = "again"
    PARKED = "parked"


class TaskKind(TextEnum):
    """What the reactor wants from an offloaded stage."""

    ELEMENT = "element"
    FLUSH = "flush"
    COMPLETE = "complete"
    PRESSURE = "pressure"
    INTERRUPT = "interrupt"


class VerdictKind(TextEnum):
    PASS = "pass"
    DROP = "drop"
    REPLACE = "replace"
    BLOCK = "block"
    HOLD = "hold"


class FailureKind(TextEnum):
    """Why a flow failed."""

    COMPONENT = "component"
    QUEUE_FULL = "queue-full"
    MEMORY_EXCEEDED = "memory-exceeded"
    DEADLINE_EXCEEDED = "deadline-exceeded"
    PANIC = "panic"


class ErrorKind(TextEnum):
    """Why a call of a component failed."""

    INVALID_INPUT = "invalid-input"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"
    DEADLINE_EXCEEDED = "deadline-exceeded"
    FATAL = "fatal"
    CONTRACT = "contract"
    INTERRUPTED = "interrupted"


class Observability(TextEnum):
    """Which calls are timed: none, some, or all."""

    OFF = "off"
    PRODUCTION = "production"
    DIAGNOSTIC = "diagnostic"


class BackpressurePolicy(TextEnum):
    """What happens to an element when its queue is full."""

    BLOCK = "block"
    DROP_OLDEST = "drop-oldest"
    DROP_NEWEST = "drop-newest"
    ERROR = "error"


class RecoveryPolicy(TextEnum):
    """What happens to an element whose last call has failed."""

    FAIL_FAST = "fail-fast"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"
    STORE = "store"
    """It is stored with the dead letters of the flow."""
    SET_ASIDE = "set-aside"
    """It is stored if it was refused as invalid, and else ends the flow."""


class PriorityClass(TextEnum):
    """A flow's share of the worker threads, and an answer's of the loop."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    BACKGROUND = "background"

    @property
    def weight(self) -> float:
        """Its share beside that of `normal`."""
        return 4.0 * 0.5 ** list(PriorityClass).index(self)


class CallOutcome(TextEnum):
    """What a call did with its element, in a trace."""

    PULLED = "pulled"
    DONE = "done"
    PASSED = "passed"
    ROUTED = "routed"
    DROPPED = "dropped"
    HELD = "held"
    REPLACED = "replaced"
    BLOCKED = "blocked"
    PAUSED = "paused"
    FAILED = "failed"


class GuardRules(TextEnum):
    """What a guard looks for."""

    WORDS = "words"
    PATTERNS = "patterns"
    REDACT = "redact"


class GuardAction(TextEnum):
    """What a guard does to a match."""

    DROP = "drop"
    REPLACE = "replace"
    BLOCK = "block"


class GuardPolicy(TextEnum):
    """When a guard sends text."""

    HOLD = "hold"
    OPTIMISTIC = "optimistic"
    SHADOW = "shadow"
