"""Creates what sessions need at the broker: streams for frames and prompts, buckets for records and
for the limits of keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from torvyn._io.nats import BrokerConnection, Refused, ask
from torvyn.transport.sessions.shared.address import StoreAddress, bucket_stream, bucket_subject

_NS: Final = 1_000_000_000
_LIMITS_BYTES: Final = 1 << 24
"""An entry takes some hundred bytes, and those of keys that are not used expire."""
_LEAST_BYTES: Final = 1 << 24
_NO_ROOM: Final = 10047
_LONGEST_ANSWER_S: Final = 3600.0
_RAISED: Final = ("max_age", "num_replicas", "max_bytes")
_NOT_FOUND: Final = 10059
_SHORTEST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What sessions may take at the broker."""

    ttl_s: float
    replicas: int
    frames_bytes: int
    """Of all frames together; the broker refuses more."""

    @property
    def requests_bytes(self) -> int:
        """Of all prompts together, and of all records."""
        return self.frames_bytes // 4


async def create_streams(
    broker: BrokerConnection, address: StoreAddress, limits: StoreLimits
) -> None:
    """What exists stays as it is, but is kept for long enough, often enough and with as much room.
    Raises `Refused` or `BrokerUnavailable`."""
    for config in (
        _stream(address.frames_stream, address.frames_subject("*"), limits, limits.frames_bytes),
        # A stream of its own, so that renewing a record does not write its prompt again.
        {
            **_stream(
                address.prompts_stream, address.prompt_subject("*"), limits, limits.requests_bytes
            ),
            "max_msgs_per_subject": 1,
        },
        _bucket(address.records_bucket, limits, limits.requests_bytes),
        # Prompts and records never take the room of the limits of keys.
        _bucket(address.limits_bucket, limits, _LIMITS_BYTES),
    ):
        await _create(broker, config)


def record_ttl_s(session_ttl_s: float) -> float:
    """How long a record is kept that its server does not renew."""
    return max(2 * session_ttl_s, _SHORTEST_S)


async def _create(broker: BrokerConnection, config: dict[str, Any]) -> None:
    name = config["name"]
    try:
        existing = (await ask(broker, f"STREAM.INFO.{name}"))["config"]
    except Refused as error:
        if error.code != _NOT_FOUND:
            raise
        await _create_new(broker, config)
        return
    raised = {key: config[key] for key in _RAISED if existing.get(key, 0) < config[key]}
    if raised:
        await _raise_limits(broker, name, existing, raised)


async def _raise_limits(
    broker: BrokerConnection, name: str, existing: dict[str, Any], raised: dict[str, Any]
) -> None:
    """A broker without more room keeps the size that it has."""
    try:
        await ask(broker, f"STREAM.UPDATE.{name}", {**existing, **raised})
    except Refused as error:
        if error.code != _NO_ROOM or raised.pop("max_bytes", None) is None:
            raise
        if raised:
            await ask(broker, f"STREAM.UPDATE.{name}", {**existing, **raised})


async def _create_new(broker: BrokerConnection, config: dict[str, Any]) -> None:
    """A broker with less room gets a smaller stream."""
    while True:
        try:
            await ask(broker, f"STREAM.CREATE.{config['name']}", config)
            return
        except Refused as error:
            if error.code != _NO_ROOM or config["max_bytes"] <= _LEAST_BYTES:
                raise
        config = {**config, "max_bytes": config["max_bytes"] // 4}


def _stream(name: str, subject: str, limits: StoreLimits, max_bytes: int) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": max_bytes,
        # Servers delete what is no longer needed; this is for when none is left to do it.
        "max_age": int((limits.ttl_s + _LONGEST_ANSWER_S) * _NS),
        "num_replicas": limits.replicas,
    }


def _bucket(bucket: str, limits: StoreLimits, max_bytes: int) -> dict[str, Any]:
    return {
        **_stream(bucket_stream(bucket), bucket_subject(bucket, ">"), limits, max_bytes),
        "max_msgs_per_subject": 1,
        "max_age": int(record_ttl_s(limits.ttl_s) * _NS),
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }
