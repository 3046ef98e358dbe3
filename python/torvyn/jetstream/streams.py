"""Streams: makes them as they must be, empties them, and looks at them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import NOT_FOUND, BrokerUnavailable, Refused
from torvyn.jetstream.requests import ask

_NS: Final = 1_000_000_000
_LIMITS: Final = ("max_msgs_per_subject", "max_bytes", "max_age", "duplicate_window")
"""What may be changed while messages wait."""
_REPLICAS: Final = "num_replicas"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream that refuses what exceeds its limits."""

    name: str
    subjects: tuple[str, ...]
    max_per_subject: int
    max_bytes: int = -1
    max_age_s: float | None = None
    duplicate_window_s: float = 120.0
    replicas: int = 1
    description: str = ""
    is_bucket: bool = False

    def config(self) -> dict[str, Any]:
        max_age_ns = int((self.max_age_s or 0) * _NS)
        window_ns = int(self.duplicate_window_s * _NS)
        config: dict[str, Any] = {
            "name": self.name,
            "subjects": list(self.subjects),
            "description": self.description,
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "max_msgs": -1,
            "max_msgs_per_subject": self.max_per_subject,
            "max_bytes": self.max_bytes,
            "max_age": max_age_ns,
            # The server refuses a window that is longer than the age.
            "duplicate_window": min(window_ns, max_age_ns) if max_age_ns else window_ns,
            "num_replicas": self.replicas,
        }
        if self.is_bucket:
            return {**config, "allow_rollup_hdrs": True, "allow_direct": True}
        return {**config, "discard_new_per_subject": True}


@dataclass(frozen=True, slots=True)
class StreamState:
    description: str
    created: str
    """When it was made: a stream that was deleted and made again has other numbers."""
    messages: int
    bytes: int
    first: int
    last: int


class Streams:
    def __init__(self, broker: BrokerConnection) -> None:
        self._broker = broker

    async def _ask(self, subject: str, request: Any = None) -> Any:
        try:
            return await ask(self._broker, subject, request)
        except Refused as error:
            if error.is_away:
                raise BrokerUnavailable(f"{self._broker.address}: {error.text}") from error
            raise

    async def state(self, name: str) -> StreamState | None:
        """None if there is no such stream."""
        try:
            return _state(await self._ask(f"STREAM.INFO.{name}"))
        except Refused as error:
            if error.code in NOT_FOUND:
                return None
            raise

    async def subjects(self, name: str, pattern: str) -> list[str]:
        """The subjects of the stream that match, and have messages."""
        answer = await self._ask(f"STREAM.INFO.{name}", {"subjects_filter": pattern})
        return list(answer["state"].get("subjects") or ())

    async def of_subjects(self, pattern: str) -> dict[str, StreamState]:
        """The streams whose subjects match, by name."""
        found: dict[str, StreamState] = {}
        while True:
            request = {"subject": pattern, "offset": len(found)}
            answer = await self._ask("STREAM.LIST", request)
            page = answer.get("streams") or ()
            found |= {each["config"]["name"]: _state(each) for each in page}
            if not page or len(found) >= answer["total"]:
                return found

    async def ensure(self, spec: StreamSpec) -> StreamState:
        """Makes the stream, or gives it new limits. Raises `Refused`."""
        config = spec.config()
        try:
            answer = await self._ask(f"STREAM.INFO.{spec.name}")
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise
            try:
                return _state(await self._ask(f"STREAM.CREATE.{spec.name}", config))
            except Refused as refusal:
                # Somebody else may have made it in the meantime.
                try:
                    answer = await self._ask(f"STREAM.INFO.{spec.name}")
                except Refused:
                    raise refusal from None
        found = answer["config"]
        changes = {key: config[key] for key in _LIMITS}
        if answer["state"]["messages"]:
            # The server deletes what waits above a smaller limit.
            changes = {key: _larger(found.get(key, 0), changes[key]) for key in _LIMITS}
        changes[_REPLICAS] = config[_REPLICAS]
        if any(found.get(key, 0) != value for key, value in changes.items()):
            answer = await self._ask(f"STREAM.UPDATE.{spec.name}", {**found, **changes})
        return _state(answer)

    async def purge(
        self, name: str, *, below: int | None = None, subject: str | None = None
    ) -> None:
        """Deletes messages: those with smaller numbers, those of a subject, or all."""
        request: dict[str, Any] = {}
        if below is not None:
            request["seq"] = below
        if subject is not None:
            request["filter"] = subject
        await self._ask(f"STREAM.PURGE.{name}", request)

    async def delete(self, name: str) -> None:
        try:
            await self._ask(f"STREAM.DELETE.{name}")
        except Refused as error:
            if error.code not in NOT_FOUND:
                raise


def _larger(one: int, other: int) -> int:
    """Of two limits: no limit is 0 or less."""
    return max(one, other) if one > 0 and other > 0 else min(one, other)


def _state(answer: Any) -> StreamState:
    state = answer["state"]
    return StreamState(
        answer["config"].get("description", ""),
        answer["created"],
        state["messages"],
        state["bytes"],
        state["first_seq"],
        state["last_seq"],
    )
