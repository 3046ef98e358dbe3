"""Asks the server by its JetStream API, and reads its answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import NO_STREAM, BrokerUnavailable, Refused

ANSWER_S: Final = 5.0
"""How long an answer may take before the connection counts as lost."""


async def ask(
    broker: BrokerConnection, subject: str, request: Any = None, *, client: Any = None
) -> Any:
    """The answer as JSON; raises `Refused`, or `BrokerUnavailable` if there is none. `client`: of a
    connection that is not established yet."""
    import nats

    used = client or broker.require()
    body = b"" if request is None else json.dumps(request).encode()
    try:
        message = await used.request(f"$JS.API.{subject}", body, timeout=ANSWER_S)
    except nats.errors.NoRespondersError:
        raise BrokerUnavailable(f"JetStream does not answer at {broker.address}") from None
    except (nats.errors.TimeoutError, TimeoutError, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        raise BrokerUnavailable(f"{broker.address} does not answer") from None
    except (OSError, nats.errors.Error) as error:
        raise BrokerUnavailable(f"{broker.address}: {error}") from error
    return read_answer(message.data)


def read_answer(data: bytes) -> Any:
    """The answer; raises `Refused` if it is an error."""
    if not data:
        raise Refused(NO_STREAM, "no stream stores the subject")
    answer = json.loads(data)
    error = answer.get("error")
    if error:
        raise Refused(error.get("err_code", 0), error.get("description", "refused"))
    return answer
