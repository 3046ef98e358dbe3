"""The thread that sends the requests of a sink, one at a time, until each is delivered.

Delays grow with full jitter, the server's `Retry-After` is the shortest of them, and a server that
is overloaded gets fewer elements per second. A call that is given up ends at once: its connection
is cut, and the thread goes on to the next.
"""

from __future__ import annotations

import asyncio
import http.client
import queue
import ssl
import threading
from collections.abc import Mapping
from typing import Any, Final

from torvyn._io.backoff import Backoff
from torvyn._io.connection import Connection
from torvyn._io.restart import keep_running
from torvyn.components.http.adaptive_rate import AdaptiveRate
from torvyn.components.http.answer import Response
from torvyn.components.http.batch_body import Body
from torvyn.components.http.http_client import HttpClient, Server
from torvyn.errors import InvalidInput, Unavailable, os_reason

UNKNOWN_IN_A_ROW: Final = 8
"""After so many elements that the server does not know, none of them accepted in between, it is the
path that it no longer knows."""


class Delivery:
    """One body on its way. `cancelled` is set when nobody waits for it any more."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.cancelled = threading.Event()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()

    def end(self, error: Exception | None) -> None:
        """From the uplink's thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, error)

    def _settle(self, error: Exception | None) -> None:
        if not self.future.done():
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)


class Uplink:
    def __init__(
        self,
        server: Server,
        connection: Connection,
        *,
        method: str,
        headers: Mapping[str, str],
        fails_when_lost: bool,
    ) -> None:
        self._client = HttpClient(server)
        self._connection = connection
        self._method = method
        self._headers = headers
        self._fails = fails_when_lost
        self._backoff = Backoff()
        self._rate = AdaptiveRate()
        self._knows_path = False
        """Whether the server has accepted something."""
        self._unknown_in_a_row = 0
        self._work: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._current: Delivery | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="torvyn-http", daemon=True)
        self._thread.start()

    async def deliver(self, body: Body) -> None:
        """Returns when the server has accepted the body."""
        delivery = Delivery(body)
        self._work.put(delivery)
        try:
            await delivery.future
        except asyncio.CancelledError:
            delivery.cancelled.set()
            self._client.abort()
            raise

    def close(self) -> None:
        self._closed.set()
        self._work.put(None)
        self._client.abort()

    def _run(self) -> None:
        keep_running(self._deliver_all, self._closed.wait, self._fail)

    def _deliver_all(self) -> None:
        while (delivery := self._work.get()) is not None:
            self._current = delivery
            delivery.end(self._deliver(delivery))
        self._client.close()

    def _fail(self, reason: str) -> None:
        """The elements at hand fail: what nobody expected may be due to them."""
        self._client.close()
        if self._current is not None:
            self._current.end(Unavailable(reason))

    def _deliver(self, delivery: Delivery) -> Exception | None:
        """Tries until the body is accepted; returns the error if it is the elements' own."""
        while not delivery.cancelled.is_set():
            if delivery.cancelled.wait(self._rate.delay_s()):
                break
            answer = self._try(delivery.body)
            if isinstance(answer, Response):
                if answer.is_delivered:
                    self._succeeded()
                    return None
                if self._refuses(answer, delivery.body):
                    return InvalidInput(answer.reason)
            failure = self._report(answer)
            if self._fails:
                return failure
            asked_s = answer.delay_s if isinstance(answer, Response) else 0.0
            delivery.cancelled.wait(self._backoff.next_delay_s(asked_s))
        return None

    def _refuses(self, answer: Response, body: Body) -> bool:
        """Whether the answer is about these elements, and will not change."""
        if not answer.is_unknown_path:
            return not answer.is_retried
        # Where elements were accepted, the path is right: the server does not know what they name.
        # Several are divided before that is known: one of them may be accepted.
        is_single = body.element_count == 1
        if self._unknown_in_a_row >= UNKNOWN_IN_A_ROW or (is_single and not self._knows_path):
            return False
        self._unknown_in_a_row += is_single
        return True

    def _report(self, answer: Response | str) -> Unavailable:
        """Shows why the elements were not accepted for now."""
        if isinstance(answer, str):
            self._connection.lost(answer)
            return Unavailable(answer)
        # The server's text may have a time or an id in it.
        cause, hint = str(answer.status), answer.rejection_hint
        if hint is None:
            self._connection.lost(answer.reason, cause)
        else:
            self._connection.rejected(answer.reason, hint, cause)
        return Unavailable(answer.reason, hint=hint)

    def _succeeded(self) -> None:
        self._knows_path, self._unknown_in_a_row = True, 0
        self._rate.accepted()
        self._backoff.reset()
        self._connection.connected()

    def _try(self, body: Body) -> Response | str:
        """The answer of the server, or why there is none."""
        self._rate.sent(body.element_count)
        own = {"Content-Type": body.content_type, "Idempotency-Key": body.key}
        try:
            answer = self._client.request(self._method, body.data, {**own, **self._headers})
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not trusted: {error.verify_message}"
        except http.client.HTTPException as error:
            return f"the server sent something that is not HTTP: {_text(error)}"
        except OSError as error:
            return os_reason(error)
        if answer.is_overloaded:
            self._rate.overloaded()
        return answer


def _text(error: Any) -> str:
    return str(error) or type(error).__name__
