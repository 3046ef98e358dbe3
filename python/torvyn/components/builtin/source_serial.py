"""`serial`: reads lines from a serial port, one element each.

A thread reads the port. A device that is unplugged is waited for. The first line after opening is
left out, because it may have begun earlier: a torn number looks like a number.
"""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.config import parse_config
from torvyn.components.line_format import LineSplitter, line_options
from torvyn.components.network.inbox import CAPACITY
from torvyn.components.network.line_receiver import LineReceiver, Received
from torvyn.components.network.serial_port import OPTIONS, SerialAway, SerialPort
from torvyn.components.spec import Option, Spec

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


class Serial(LineReceiver):
    spec: ClassVar[Spec] = SPEC
    is_exclusive = True
    unit = "lines"

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._skips_first: bool = options["skip_first"]
        self._port_name: str = options["port"]
        self._port = SerialPort(SPEC, options)
        self.start(options, self._port_name)

    # On the thread

    def receive(self) -> None:
        try:
            while not self._retry.is_stopped:
                self._retry.call(self._port.open, SerialAway)
                self._read_until_lost()
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
                    self._inbox.put(Received(line.data, self._port_name) for line in lines)
        except SerialAway as error:
            self._retry.wait(error)
