"""Every process of a flow says on the broker that it runs, to whoever asks: what a flow has there
must not be removed while somebody uses it."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Final

from torvyn.jetstream import BrokerConnection, BrokerUnavailable

ASK_S: Final = 1.0
"""How long an answer may take. If there is nobody, the server says so at once."""


async def announce(broker: BrokerConnection, subject: str) -> None:
    """Answers on this connection, and on those that follow it."""
    place = {"machine": socket.gethostname(), "process": os.getpid()}

    async def answer(message: Any) -> None:
        await message.respond(json.dumps(place).encode())

    async def subscribe(client: Any) -> None:
        await client.subscribe(subject, cb=answer)

    broker.setups.append(subscribe)
    await subscribe(broker.require())


async def who_runs(broker: BrokerConnection, subject: str) -> str | None:
    """A process of the flow; None if there is none."""
    import nats

    try:
        message = await broker.require().request(subject, b"", timeout=ASK_S)
    except nats.errors.NoRespondersError:
        return None
    except (nats.errors.TimeoutError, TimeoutError):
        raise BrokerUnavailable(f"nobody answers on `{subject}` of {broker.address}") from None
    place = json.loads(message.data)
    return f"process {place['process']} on {place['machine']}"
