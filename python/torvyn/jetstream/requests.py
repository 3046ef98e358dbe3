"""Asks the server by its JetStream API, and reads its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from torvyn.jetstream.connection import BrokerConnection
from torvyn.jetstream.failures import NO_STREAM, BrokerUnavailable, Denial, Refused


async def ask(
    broker: BrokerConnection, subject: str, request: Any = None, *, client: Any = None
) -> Any:
    """The answer as JSON; raises `Refused`, or `BrokerUnavailable` if there is none. `client`: of a
    connection that is not established yet."""
    import nats

    used = client or broker.require()
    body = b"" if request is None else json.dumps(request).encode()
    subject = f"$JS.API.{subject}"
    asking = used.request(subject, body, timeout=broker.patience.answer_s)
    try:
        message = await _or_denied(broker, subject, asking)
    except nats.errors.NoRespondersError:
        raise BrokerUnavailable(f"JetStream does not answer at {broker.address}") from None
    except (nats.errors.TimeoutError, TimeoutError, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError):
            raise
        raise BrokerUnavailable(f"{broker.address} does not answer to `{subject}`") from None
    except (OSError, nats.errors.Error) as error:
        raise BrokerUnavailable(f"{broker.address}: {error}") from error
    return read_answer(message.data)


async def _or_denied(broker: BrokerConnection, subject: str, asking: Awaitable[Any]) -> Any:
    """The answer; raises `BrokerDenied` as soon as the server says that a right is missing: a
    request that it does not let pass has no answer."""
    denied: asyncio.Future[Denial] = asyncio.get_running_loop().create_future()

    def on_denial(denial: Denial) -> Denial | None:
        # Of a subscription, it is the one for answers.
        if denied.done() or (denial.is_publish and denial.subject != subject.lower()):
            return None
        found = denial._replace(subject=subject) if denial.is_publish else denial
        denied.set_result(found)
        return found

    broker.on_denial.add(on_denial)
    answer = asyncio.ensure_future(asking)
    try:
        await asyncio.wait((answer, denied), return_when=asyncio.FIRST_COMPLETED)
        if denied.done():
            raise broker.denied(denied.result())
        return answer.result()
    finally:
        broker.on_denial.discard(on_denial)
        answer.cancel()


def read_answer(data: bytes) -> Any:
    """The answer; raises `Refused` if it is an error."""
    if not data:
        raise Refused(NO_STREAM, "no stream stores the subject")
    answer = json.loads(data)
    error = answer.get("error")
    if error:
        raise Refused(error.get("err_code", 0), error.get("description", "refused"))
    return answer
