"""`serial`: reads lines from a serial port, one element each.

A thread reads the port. A device that is unplugged is waited for. The first line after opening is
left out, because it may have begun earlier: a torn number looks like a number.
"""

from __future__ import annotations

import logging
import threading
from typing import ClassVar

from torvyn.components.config import parse_config
from torvyn.components.connection import Connection
from torvyn.components.line_format import LineFormat, LineSplitter, SplitLine, line_options
from torvyn.components.network.inbox import CAPACITY, Inbox
from torvyn.components.network.serial_port import OPTIONS, SerialAway, SerialPort
from torvyn.components.retry import RetryLoop
from torvyn.components.spec import Option, Spec
from torvyn.contract import PENDING, Output, Pending, Source
from torvyn.errors import Unavailable

logger = logging.getLogger("torvyn.components")

SPEC = Spec(
    name="serial",
    role="source",
    summary="Reads lines from a serial port.",
    options=(
        *OPTIONS,
        Option(
            "skip_first",
            "boolean",
            True,
            "Leave out the first line after opening the port, which may be incomplete.",
        ),
        CAPACITY,
        *line_options(4096),
    ),
    main="port",
    example="""\
[flow.main.nodes.scale]
component = "serial"
config = { port = "/dev/ttyUSB0", baudrate = 115200, errors = "replace" }
""",
)


class Serial(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"

    _thread: threading.Thread | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._format = LineFormat.of(SPEC, options)
        self._skips_first: bool = options["skip_first"]
        self._name: str = options["port"]
        self._inbox: Inbox[SplitLine] = Inbox(options["capacity"], self.wake)
        self._port = SerialPort(SPEC, options)
        self.connection = Connection("serial", self._name)
        self._retry = RetryLoop(self.connection, options["on_disconnect"])
        self._error: Unavailable | None = None
        self._thread = threading.Thread(target=self._run, name="torvyn-serial", daemon=True)
        self._thread.start()

    def pull(self) -> str | Output | Pending:
        while (line := self._inbox.take()) is not None:
            if line.data is None:
                raise self._format.too_long(f"a line from {self._name}")
            output = self._format.decode(line.data, f"a line from {self._name}")
            if output is not None:
                return output
        if self._error is not None:
            raise Unavailable(f"cannot read {self._name}: {self._error}")
        return PENDING

    def teardown(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._retry.stop()
        left = self._inbox.close()
        thread.join()
        self.connection.close()
        if left:
            logger.warning("`serial`: %d lines were received and not processed", left)

    # On the thread

    def _run(self) -> None:
        try:
            while not self._retry.is_stopped:
                self._retry.call(self._port.open, SerialAway)
                self._read_until_lost()
        except Unavailable as error:
            self._error = error
            self.wake()
        finally:
            self._port.close()

    def _read_until_lost(self) -> None:
        splitter = LineSplitter(self._format.max_bytes)
        skips = self._skips_first
        try:
            while not self._retry.is_stopped:
                self._inbox.wait_for_room()
                lines = splitter.feed(self._port.read())
                if lines and skips:
                    skips = False
                    lines = lines[1:]
                if lines:
                    self._inbox.put(lines)
        except SerialAway as error:
            self._retry.wait(error)
