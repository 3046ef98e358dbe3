"""What the sources `tcp`, `udp` and `serial` share: a thread that receives lines, and an inbox from
which the flow pulls them.

The thread stops reading while the inbox is full. Nothing confirms a line to its sender: what was
received but not processed at the end is counted and lost.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, ClassVar, NamedTuple

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn._io.restart import keep_running
from torvyn.components.line_format import LineFormat
from torvyn.components.network.inbox import Inbox
from torvyn.components.retry import RetryLoop
from torvyn.components.spec import Spec
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")


class Received(NamedTuple):
    data: bytes | None
    """None: a line that is longer than the limit."""
    sender: str


class LineReceiver(Source):
    """A subclass calls `start` at the end of its `init`, and receives in `receive`."""

    spec: ClassVar[Spec]
    failure: ClassVar[str] = "cannot read"
    """What it says when there is no connection, before the address."""

    _thread: threading.Thread | None = None

    def start(self, options: dict[str, Any], address: str) -> None:
        self._format = LineFormat.of(self.spec, options)
        self._inbox: Inbox[Received] = Inbox(options["capacity"], self.wake)
        self.connection = Connection(self.spec.name, address)
        self._retry = RetryLoop(self.connection, options["on_disconnect"])
        self._error: Unavailable | None = None
        name = f"torvyn-{self.spec.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def receive(self) -> None:
        """Puts lines into the inbox until the flow has ended. On the thread; raises `Unavailable`
        when there is no connection and the source was told to fail."""
        raise NotImplementedError

    def unblock_thread(self) -> None:
        """Makes `receive` return soon."""

    def to_output(self, received: Received) -> str | bytes | Output | None:
        """An element, or None for nothing."""
        where = f"a line from {received.sender}"
        if received.data is None:
            raise self._format.too_long(where)
        return self._format.decode(received.data, where)

    def pull(self) -> str | bytes | Output | Pending:
        while (received := self._inbox.take()) is not None:
            output = self.to_output(received)
            if output is not None:
                return output
        if self._error is not None:
            raise Unavailable(f"{self.failure} {self.connection.address}: {self._error}")
        return PENDING

    def teardown(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._retry.stop()
        self.unblock_thread()
        left = self._inbox.close()
        thread.join()
        self.connection.close()
        if left:
            name = self.spec.name
            logger.warning("`%s`: %d elements were received and not processed", name, left)

    def _run(self) -> None:
        keep_running(self._receive_lines, self._retry.sleep, self._lost)

    def _receive_lines(self) -> None:
        if self._error is None:
            try:
                self.receive()
            except Unavailable as error:
                self._fail(error)

    def _lost(self, reason: str) -> None:
        self.connection.lost(reason)
        if self._retry.fails:
            self._fail(Unavailable(reason))

    def _fail(self, error: Unavailable) -> None:
        self._error = error
        self.wake()
