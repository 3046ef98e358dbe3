"""Creates what sessions need at the broker: a stream for frames, a bucket for records."""

from __future__ import annotations

from typing import Any, Final

from torvyn.jetstream import BrokerConnection, Refused
from torvyn.jetstream.requests import ask
from torvyn.transport.sessions.shared.address import StoreAddress

_NS: Final = 1_000_000_000
_MAX_BYTES: Final = 1 << 30
"""Of all frames together, and a quarter of it for records; the broker refuses more."""
_LEAST_BYTES: Final = 1 << 24
_NO_ROOM: Final = 10047
_LONGEST_ANSWER_S: Final = 3600.0
_RAISED: Final = ("max_age", "num_replicas")
_NOT_FOUND: Final = 10059
_SHORTEST_S: Final = 60.0


async def create_streams(
    broker: BrokerConnection, address: StoreAddress, ttl_s: float, replicas: int
) -> None:
    """What exists stays as it is, but is kept for long enough and often enough. Raises
    `Refused` or `BrokerUnavailable`."""
    for config in (_frames(address, ttl_s, replicas), _records(address, ttl_s, replicas)):
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


def _frames(address: StoreAddress, ttl_s: float, replicas: int) -> dict[str, Any]:
    return {
        "name": address.frames_stream,
        "subjects": [address.frames_subject("*")],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": _MAX_BYTES,
        # Servers delete what is no longer needed; this is for when none is left to do it.
        "max_age": int((ttl_s + _LONGEST_ANSWER_S) * _NS),
        "num_replicas": replicas,
    }


def _records(address: StoreAddress, ttl_s: float, replicas: int) -> dict[str, Any]:
    return {
        "name": address.records_stream,
        "subjects": [address.record_subject(">")],
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_bytes": _MAX_BYTES // 4,
        "max_msgs_per_subject": 1,
        "max_age": int(record_ttl_s(ttl_s) * _NS),
        "num_replicas": replicas,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }
