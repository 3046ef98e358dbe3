"""`serial`: writes each element as a line to a serial port.

An element is delivered when it has left for the wire. While the device is unplugged, the sink waits
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from torvyn._contract.element import Element
from torvyn.components.batch_results import BatchResults, Results, raise_refusal
from torvyn.components.config import parse_config
from torvyn.components.line_format import SINK_FORMAT, encode_line
from torvyn.components.network.serial_port import OPTIONS, SerialAway, SerialPort
from torvyn.components.retry import RetryingSink
from torvyn.components.spec import Spec

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


class Serial(RetryingSink):
    spec: ClassVar[Spec] = SPEC
    is_exclusive = True
    unit = "lines"

    _port: SerialPort | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._is_json = options["format"] == "jsonl"
        self._port = SerialPort(SPEC, options)
        self.use_connection(options["port"], options["on_disconnect"])

    def push(self, element: Element) -> None:
        raise_refusal(self.push_batch((element,)))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        results = BatchResults(elements, partial(encode_line, as_json=self._is_json))
        lines = b"".join(results.values)
        if lines:
            self.deliver(lambda: self._write(lines), SerialAway)
        return results.answer

    def close(self) -> None:
        if self._port is not None:
            self._port.close()

    def _write(self, lines: bytes) -> None:
        assert self._port is not None
        self._port.write(lines)
