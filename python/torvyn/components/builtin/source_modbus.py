"""`modbus`: reads the registers of a Modbus/TCP device at an interval, as one JSON object each.

A register that the device refuses is null, with the reason in the field `errors`; the others are
read nevertheless. While the device is away there are no readings.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Output
from torvyn._contract.roles import Source
from torvyn._contract.signals import PENDING, Pending
from torvyn._io.connection import Connection
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import JSON_TYPE, write_json
from torvyn.components.network.modbus_device import (
    DEFAULT_PORT,
    OPTIONS,
    DeviceAway,
    DeviceError,
    ModbusDevice,
    Register,
    group_registers,
    parse_registers,
)
from torvyn.components.network.poll_schedule import TIME_FIELD, PollSchedule, utc_text
from torvyn.components.network.sockets import parse_address
from torvyn.components.retry import PollRetry
from torvyn.components.spec import Option, Spec
from torvyn.errors import Unavailable

SPEC = Spec(
    name="modbus",
    role="source",
    summary="Reads the registers of a Modbus/TCP device at an interval.",
    options=(
        *OPTIONS,
        Option("poll", "duration", 1.0, "The time between two readings."),
        TIME_FIELD,
    ),
    main="address",
    example="""\
[flow.main.nodes.boiler]
component = "modbus"

[flow.main.nodes.boiler.config]
address = "192.168.1.20:502"
poll = "500ms"
registers = [
    { name = "celsius", address = 0, kind = "input", type = "int16", scale = 0.1 },
    { name = "energy", address = 10, type = "float32" },
    { name = "pump", address = 3, kind = "coil" },
]
""",
)


class Modbus(Source):
    spec: ClassVar[Spec] = SPEC
    unit = "readings"
    run = "thread"

    _device: ModbusDevice | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._groups = group_registers(parse_registers(SPEC, options["registers"]))
        self._time_field: str = options["time_field"]
        self._schedule = PollSchedule(options["poll"])
        self._device = ModbusDevice(SPEC, options)
        self.connection = Connection("modbus", options["address"])
        self._retry = PollRetry(self.connection, options["on_disconnect"], options["poll"])

    @staticmethod
    def check_options(options: dict[str, Any]) -> None:
        """Called by the linker too, before the flow starts."""
        parse_address(SPEC, options["address"], DEFAULT_PORT)
        parse_registers(SPEC, options["registers"])
        if not options["poll"]:
            raise wrong_config(SPEC, "`poll` cannot be 0", 'set it to a duration such as "1s"')

    def pull(self) -> Output | Pending:
        wait_s = self._schedule.wait_s()
        if wait_s > 0:
            return PENDING.after(wait_s)
        try:
            reading = self._read()
        except DeviceAway as error:
            return self._retry.failed(str(error))
        self._retry.succeeded()
        self._schedule.next()
        return Output(write_json(reading), content_type=JSON_TYPE)

    def teardown(self) -> None:
        device, self._device = self._device, None
        if device is not None:
            device.close()
            self.connection.close()

    def _read(self) -> dict[str, Any]:
        reading: dict[str, Any] = {self._time_field: utc_text()} if self._time_field else {}
        errors: dict[str, str] = {}
        for group in self._groups:
            reading.update(self._read_group(group, errors))
        if errors:
            reading["errors"] = errors
        return reading

    def _read_group(self, group: list[Register], errors: dict[str, str]) -> dict[str, Any]:
        if self._device is None:
            raise Unavailable("the device is closed")
        try:
            return self._device.read(group)
        except DeviceError as error:
            if len(group) == 1:
                errors[group[0].name] = str(error)
                return {group[0].name: None}
        # One bad register refuses the whole request: ask for each.
        values: dict[str, Any] = {}
        for register in group:
            values.update(self._read_group([register], errors))
        return values
