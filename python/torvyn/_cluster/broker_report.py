"""What a broker stores: its streams, their messages and their readers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from torvyn._io.background_loop import run_apart

TIMEOUT_S: Final = 5.0
_KEY_VALUE: Final = "KV_"
"""JetStream keeps a bucket of keys and values as a stream of this name."""


@dataclass(frozen=True, slots=True)
class StreamReport:
    name: str
    messages: int
    """Those that wait; of a bucket, its values."""
    stored_bytes: int
    consumers: int
    is_bucket: bool


class NoAnswer(Exception):
    """A part does not answer, or not in time; the text says why."""


def read_streams(url: str) -> list[StreamReport]:
    """The streams by name; raises `NoAnswer`, or `ModuleNotFoundError` without nats-py."""
    import nats

    try:
        return run_apart(asyncio.wait_for(_read(nats, url), TIMEOUT_S))
    except TimeoutError:
        raise NoAnswer(f"no answer within {TIMEOUT_S:.0f} s") from None
    except (OSError, nats.errors.Error) as error:
        raise NoAnswer(str(error) or type(error).__name__) from error


async def _read(nats: Any, url: str) -> list[StreamReport]:
    async def ignore(error: Exception) -> None:
        pass

    client = await nats.connect(
        url, allow_reconnect=False, connect_timeout=TIMEOUT_S, error_cb=ignore
    )
    try:
        jetstream = client.jetstream()
        found: list[Any] = []
        while page := await jetstream.streams_info(offset=len(found)):
            found += page
        return sorted(map(_report, found), key=lambda stream: stream.name)
    finally:
        with suppress(Exception):
            await client.close()


def _report(info: Any) -> StreamReport:
    name, state = info.config.name, info.state
    is_bucket = name.startswith(_KEY_VALUE)
    return StreamReport(name, state.messages, state.bytes, state.consumer_count, is_bucket)
