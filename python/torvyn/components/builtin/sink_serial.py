"""`serial`: writes each element as a line to a serial port.

An element is delivered when it has left for the wire. While the device is unplugged, the sink waits
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torvyn.components.config import parse_config
from torvyn.components.connection import Connection
from torvyn.components.line_format import SINK_FORMAT, encode_line
from torvyn.components.network.serial_port import OPTIONS, SerialAway, SerialPort
from torvyn.components.retry import RetryLoop
from torvyn.components.spec import Spec
from torvyn.contract import Element, Sink
from torvyn.errors import Unavailable

SPEC = Spec(
    name="serial",
    role="sink",
    summary="Writes each element as a line to a serial port.",
    options=(*OPTIONS, SINK_FORMAT),
    main="port",
    example="""\
[flow.main.nodes.display]
component = "serial"
config = { port = "/dev/ttyS1", baudrate = 19200 }
""",
)


class Serial(Sink):
    spec: ClassVar[Spec] = SPEC
    unit = "lines"
    run = "thread"

    _port: SerialPort | None = None
    _retry: RetryLoop | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._is_json = options["format"] == "jsonl"
        self._port = SerialPort(SPEC, options)
        self.connection = Connection("serial", options["port"])
        self._retry = RetryLoop(self.connection, options["on_disconnect"])

    def push(self, element: Element) -> None:
        self.push_batch((element,))

    def push_batch(self, elements: Sequence[Element]) -> None:
        if self._retry is None or self._port is None:
            raise Unavailable("the port is not open")
        port = self._port
        lines = b"".join(encode_line(element, as_json=self._is_json) for element in elements)
        self._retry.call(lambda: port.write(lines), SerialAway)

    def unblock(self) -> None:
        if self._retry is not None:
            self._retry.stop()

    def teardown(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            port.close()
            self.connection.close()
