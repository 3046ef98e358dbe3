"""What a component does when the other side is away: it tries again, or fails if it was told to.

A sink tries inside `push`, so back-pressure stops the flow while nothing can be delivered, and
nothing is lost. There is no last try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar

from torvyn._contract.roles import Sink
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.backoff import Backoff
from torvyn._io.connection import Connection
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable, os_reason

T = TypeVar("T")

ON_DISCONNECT: Final = Option(
    "on_disconnect",
    "choice",
    "retry",
    "When there is no connection: `retry` without end, or `fail`, which raises an error.",
    choices=("retry", "fail"),
)


class RetryLoop:
    """Repeats a call on a thread until it succeeds, with growing delays."""

    def __init__(
        self, connection: Connection, on_disconnect: str, backoff: Backoff | None = None
    ) -> None:
        self._connection = connection
        self._fails = on_disconnect == "fail"
        self._backoff = backoff or Backoff()
        self._stopped = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def stop(self) -> None:
        """Ends a wait in progress. May be called from any thread."""
        self._stopped.set()

    def call(self, attempt: Callable[[], T], *errors: type[Exception]) -> T:
        """The result of the first attempt that raises none of the errors. Raises `Unavailable` when
        the loop is stopped."""
        while True:
            if self.is_stopped:
                raise Unavailable("the flow has ended")
            try:
                result = attempt()
            except errors as error:
                self.wait(error)
            else:
                self.succeeded()
                return result

    def sleep(self, seconds: float) -> bool:
        """Returns early, and true, when the loop is stopped."""
        return self._stopped.wait(seconds)

    @property
    def fails(self) -> bool:
        """Whether it was told to fail instead of trying again."""
        return self._fails

    def succeeded(self) -> None:
        self._connection.connected()
        self._backoff.reset()

    def wait(self, error: Exception) -> None:
        """Waits before the next attempt."""
        reason = os_reason(error)
        self._connection.lost(reason)
        if self._fails:
            raise Unavailable(reason) from error
        if self._stopped.wait(self._backoff.next_delay_s()):
            raise Unavailable(f"the flow ended while there was no connection: {reason}") from error


class RetryingSink(Sink):
    """A sink on a thread of its own whose calls wait for the other side. A subclass calls
    `use_connection` in `init` and `deliver` in `push`, and closes what it has opened in `close`."""

    spec: ClassVar[Spec]
    run = "thread"

    connection: Connection | None = None
    _retry: RetryLoop | None = None

    def use_connection(self, address: str, on_disconnect: str) -> Connection:
        """Shows the state of the connection from now on. The address must have no password."""
        self.connection = Connection(self.spec.name, address)
        self._retry = RetryLoop(self.connection, on_disconnect)
        return self.connection

    def deliver(self, attempt: Callable[[], T], *errors: type[Exception]) -> T:
        """Repeats the attempt until it raises none of the errors, which say that the other side is
        away."""
        if self._retry is None:
            raise Unavailable("the sink is not open")
        return self._retry.call(attempt, *errors)

    def close(self) -> None:
        """Closes the connection, if it is open; the next attempt opens it again."""

    def unblock(self) -> None:
        if self._retry is not None:
            self._retry.stop()

    def teardown(self) -> None:
        self.close()
        if self.connection is not None:
            self.connection.close()


class PollRetry:
    """For a source that polls: what `pull` returns while the other side is away."""

    def __init__(self, connection: Connection, on_disconnect: str, poll_s: float) -> None:
        self._connection = connection
        self._fails = on_disconnect == "fail"
        self._backoff = Backoff(first_s=poll_s)

    def succeeded(self) -> None:
        self._connection.connected()
        self._backoff.reset()

    def failed(self, reason: str) -> Pending:
        """When to poll again; raises `Unavailable` if the source was told to fail."""
        self._connection.lost(reason)
        if self._fails:
            raise Unavailable(f"cannot read {self._connection.address}: {reason}")
        return PENDING.after(self._backoff.next_delay_s())
