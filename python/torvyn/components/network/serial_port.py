"""A serial port, as its options describe it. serialx is imported when a flow uses it."""

from __future__ import annotations

from typing import Any, Final

from torvyn._io.packages import import_package
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec
from torvyn.errors import os_reason

OPTIONS: Final = (
    Option("port", "text", None, "The device, such as `/dev/ttyUSB0`.", required=True),
    Option("baudrate", "integer", 9600, "The speed in baud.", minimum=1),
    Option("parity", "choice", "none", "The parity bit.", choices=("none", "even", "odd")),
    Option("data_bits", "integer", 8, "Bits per character: 5 to 8.", minimum=5),
    Option("stop_bits", "integer", 1, "1 or 2.", minimum=1),
    Option(
        "flow_control",
        "choice",
        "none",
        "`rtscts` by wires, `xonxoff` by characters.",
        choices=("none", "rtscts", "xonxoff"),
    ),
    ON_DISCONNECT,
)
"""The port, for the source and the sink."""

READ_TIMEOUT_S: Final = 0.25
"""How soon a reader notices that it is to stop."""
WRITE_TIMEOUT_S: Final = 10.0


class SerialAway(OSError):
    """The device is not there, or was unplugged."""


class SerialPort:
    """Opens the port when it is used. For one thread at a time."""

    def __init__(self, spec: Spec, options: dict[str, Any]) -> None:
        self._serialx = import_package("serialx", f"`{spec.name}`", "serial")
        self._path: str = options["port"]
        self._options = {
            "baudrate": options["baudrate"],
            "parity": {"none": "N", "even": "E", "odd": "O"}[options["parity"]],
            "byte_size": options["data_bits"],
            "stopbits": options["stop_bits"],
            "rtscts": options["flow_control"] == "rtscts",
            "xonxoff": options["flow_control"] == "xonxoff",
            "read_timeout": READ_TIMEOUT_S,
            "write_timeout": WRITE_TIMEOUT_S,
        }
        self._port: Any = None

    @property
    def is_open(self) -> bool:
        return self._port is not None

    def open(self) -> None:
        if self._port is not None:
            return
        try:
            port = self._serialx.Serial(self._path, **self._options)
            port.open()
        except (OSError, ValueError, self._serialx.SerialException) as error:
            raise SerialAway(_reason(error)) from error
        self._port = port

    def read(self) -> bytes:
        """What has arrived, or nothing after a short time."""
        try:
            data: bytes = self._port.read(65536)
        except (OSError, self._serialx.SerialException) as error:
            self.close()
            raise SerialAway(_reason(error)) from error
        return data

    def write(self, data: bytes) -> None:
        """Returns when the data has left for the wire."""
        self.open()
        try:
            self._port.write(data)
            self._port.flush()
        except (OSError, self._serialx.SerialException) as error:
            self.close()
            raise SerialAway(_reason(error)) from error

    def close(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            try:
                port.close()
            except (OSError, self._serialx.SerialException):
                # An unplugged device cannot be closed properly.
                return


def _reason(error: Exception) -> str:
    return os_reason(error)
