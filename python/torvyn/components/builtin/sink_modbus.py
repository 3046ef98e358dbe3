"""`modbus`: writes the fields of JSON objects to the registers of a Modbus/TCP device.

An element is delivered when the device has confirmed every write. While it is away, the sink tries
again; a write that is repeated sets the same value again.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Element
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import EXTRA, parse_object, reject_extra
from torvyn.components.network.modbus_device import (
    DEFAULT_PORT,
    OPTIONS,
    DeviceAway,
    DeviceError,
    ModbusDevice,
    Register,
    parse_registers,
)
from torvyn.components.network.sockets import parse_address
from torvyn.components.retry import RetryingSink
from torvyn.components.spec import Spec
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="modbus",
    role="sink",
    summary="Writes the fields of JSON objects to the registers of a Modbus/TCP device.",
    options=(*OPTIONS, EXTRA),
    main="address",
    example="""\
[flow.main.nodes.setpoint]
component = "modbus"

[flow.main.nodes.setpoint.config]
address = "192.168.1.20"
registers = [{ name = "target", address = 40, type = "int16", scale = 0.1 }]
extra = "ignore"
""",
)


class Modbus(RetryingSink):
    spec: ClassVar[Spec] = SPEC

    _device: ModbusDevice | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._registers = {one.name: one for one in parse_registers(SPEC, options["registers"])}
        self._ignores_extra = options["extra"] == "ignore"
        self._device = ModbusDevice(SPEC, options)
        self.use_connection(options["address"], options["on_disconnect"])

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"], DEFAULT_PORT)
        for register in parse_registers(SPEC, options["registers"]):
            if register.kind not in ("holding", "coil"):
                hint = "only holding registers and coils can be written"
                raise wrong_config(SPEC, f"{register.name!r} is an input", hint)

    def push(self, element: Element) -> None:
        device = self._device
        if device is None:
            raise Unavailable("the sink is not open")
        record = parse_object(element)
        if not self._ignores_extra:
            reject_extra(record, tuple(self._registers), "the device")
        # Before anything is written: an element is written as a whole or not at all.
        writes = [
            (register, device.encode(register, record[name]))
            for name, register in self._registers.items()
            if record.get(name) is not None
        ]
        self.deliver(lambda: self._write(device, writes), DeviceAway)

    def close(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            device.close()

    @staticmethod
    def _write(device: ModbusDevice, writes: list[tuple[Register, Any]]) -> None:
        for register, encoded in writes:
            try:
                device.write(register, encoded)
            except DeviceError as error:
                message = f"the device refused the value of {register.name!r}: {error}"
                raise InvalidInput(message) from error
