"""A Modbus device over TCP: named registers with types, read in few requests and written.

pymodbus is imported when a flow uses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from torvyn._io.packages import import_package, quiet_logger
from torvyn.components.config import parse_config
from torvyn.components.network.sockets import parse_address
from torvyn.components.retry import ON_DISCONNECT
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput

DEFAULT_PORT: Final = 502
MAX_WORDS, MAX_BITS = 125, 2000
"""What one request may read."""
KINDS: Final = ("holding", "input", "coil", "discrete")
TYPES: Final = {
    "bool": 1, "int16": 1, "uint16": 1, "int32": 2, "uint32": 2, "int64": 4, "uint64": 4,
    "float32": 2, "float64": 4, "string": 0,
}  # fmt: skip
"""Type -> length in registers; that of a string is its `count`."""

OPTIONS: Final = (
    Option("address", "text", None, "The `host:port` of the device; port 502.", required=True),
    Option("device", "integer", 1, "The device id, for devices behind a gateway.", minimum=0),
    Option(
        "registers",
        "list",
        (),
        "Tables with `name`, `address` (from 0), `kind` (holding, input, coil or discrete), `type` "
        "(uint16, int16, uint32, int32, uint64, int64, float32, float64, bool or string), "
        "`scale`, `offset`, `words` (big or little), and `count` for strings.",
    ),
    Option(
        "framing",
        "choice",
        "tcp",
        "`tcp`, or `rtu` for serial frames over TCP.",
        choices=("tcp", "rtu"),
    ),
    Option("timeout", "duration", 3.0, "How long to wait for an answer."),
    ON_DISCONNECT,
)
"""The device and its registers, for the source and the sink."""

_REGISTER: Final = Spec(
    name="registers",
    role="",
    summary="",
    options=(
        Option("name", "text", None, "The field in the JSON object.", required=True),
        Option("address", "integer", None, "The first register, from 0.", required=True, minimum=0),
        Option("kind", "choice", "holding", "The kind of register.", choices=KINDS),
        Option("type", "choice", "", "The type of the value.", choices=("", *TYPES)),
        Option("scale", "number", 1, "The value is raw x scale + offset."),
        Option("offset", "number", 0, "The value is raw x scale + offset."),
        Option("words", "choice", "big", "The order of registers.", choices=("big", "little")),
        Option("count", "integer", 1, "The length of a string in registers.", minimum=1),
    ),
)


@dataclass(frozen=True, slots=True)
class Register:
    """One named value."""

    name: str
    address: int
    kind: str
    type: str
    scale: float
    offset: float
    words: str
    count: int

    @property
    def is_bit(self) -> bool:
        return self.kind in ("coil", "discrete")

    @property
    def end(self) -> int:
        return self.address + (TYPES[self.type] or self.count)


class DeviceAway(OSError):
    """The device does not answer, or cannot be reached."""


class DeviceError(Exception):
    """The device answered with an error, such as `illegal data address`."""


def parse_registers(spec: Spec, tables: Sequence[dict[str, Any]]) -> tuple[Register, ...]:
    """The registers of a config; raises `ContractError`."""
    from torvyn.components.config import wrong_config

    registers = []
    for table in tables:
        values = parse_config(_REGISTER, table)
        is_bit = values["kind"] in ("coil", "discrete")
        values["type"] = values["type"] or ("bool" if is_bit else "uint16")
        register = Register(**values)
        if is_bit != (register.type == "bool"):
            hint = "coils and discrete inputs are `bool`; registers are numbers or strings"
            raise wrong_config(spec, f"the register {register.name!r} has a wrong type", hint)
        registers.append(register)
    names = [register.name for register in registers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not names:
        what = f"`registers` names {twice!r} twice" if twice else "`registers` is empty"
        raise wrong_config(spec, what, "each register needs a name of its own")
    return tuple(registers)


def group_registers(registers: Sequence[Register]) -> list[list[Register]]:
    """Registers of one kind that follow each other without a gap, to be read in one request."""
    groups: list[list[Register]] = []
    for register in sorted(registers, key=lambda one: (one.kind, one.address)):
        limit = MAX_BITS if register.is_bit else MAX_WORDS
        group = groups[-1] if groups else None
        if (
            group
            and group[-1].kind == register.kind
            and max(one.end for one in group) >= register.address
            and register.end - group[0].address <= limit
        ):
            group.append(register)
        else:
            groups.append([register])
    return groups


class ModbusDevice:
    """A connection to one device. For one thread at a time."""

    def __init__(self, spec: Spec, options: dict[str, Any]) -> None:
        client = import_package("pymodbus.client", f"`{spec.name}`", "modbus")
        self._errors = import_package("pymodbus.exceptions", f"`{spec.name}`", "modbus")
        framer = import_package("pymodbus", f"`{spec.name}`", "modbus").FramerType
        quiet_logger("pymodbus")
        host, port = parse_address(spec, options["address"], DEFAULT_PORT)
        self._device = options["device"]
        self._client = client.ModbusTcpClient(
            host,
            port=port,
            framer=framer.RTU if options["framing"] == "rtu" else framer.SOCKET,
            timeout=options["timeout"],
            retries=0,
        )

    def close(self) -> None:
        self._client.close()

    def read(self, group: Sequence[Register]) -> dict[str, Any]:
        """The values of registers that follow each other, in one request. Raises `DeviceAway`, or
        `DeviceError` when the device refuses."""
        start, end = group[0].address, max(one.end for one in group)
        request = {
            "holding": self._client.read_holding_registers,
            "input": self._client.read_input_registers,
            "coil": self._client.read_coils,
            "discrete": self._client.read_discrete_inputs,
        }[group[0].kind]
        answer = self._ask(request, start, count=end - start)
        raw = answer.bits if group[0].is_bit else answer.registers
        if len(raw) < end - start:
            raise DeviceError("the answer is too short")
        return {
            one.name: self._decode(one, raw[one.address - start : one.end - start]) for one in group
        }

    def encode(self, register: Register, value: Any) -> list[int] | bool:
        """The value as it is written; raises `InvalidInput` if it does not fit the register."""
        if not register.is_bit:
            return self._encode(register, value)
        if not isinstance(value, bool):
            raise InvalidInput(f"{register.name!r} must be true or false, not {value!r}")
        return value

    def write(self, register: Register, encoded: list[int] | bool) -> None:
        is_bit = isinstance(encoded, bool)
        request = self._client.write_coil if is_bit else self._client.write_registers
        self._ask(request, register.address, encoded)

    def _ask(self, request: Any, *arguments: Any, **options: Any) -> Any:
        try:
            if not self._client.connected and not self._client.connect():
                raise DeviceAway("cannot connect")
            answer = request(*arguments, device_id=self._device, **options)
        except (self._errors.ModbusException, OSError) as error:
            self._client.close()
            raise DeviceAway(_reason(error)) from error
        if answer.isError():
            raise DeviceError(_EXCEPTIONS.get(answer.exception_code, f"{answer.exception_code}"))
        return answer

    def _decode(self, register: Register, raw: list[Any]) -> Any:
        if register.is_bit:
            return bool(raw[0])
        kind = self._client.DATATYPE[register.type.upper()]
        value = self._client.convert_from_registers(raw, kind, register.words)
        if isinstance(value, str):
            return value.rstrip("\0")
        if register.scale != 1 or register.offset:
            # Twelve digits, so that 213 x 0.1 is 21.3.
            value = float(f"{value * register.scale + register.offset:.12g}")
        return value if math.isfinite(value) else None

    def _encode(self, register: Register, value: Any) -> list[int]:
        kind = self._client.DATATYPE[register.type.upper()]
        try:
            if register.type != "string":
                value = (value - register.offset) / register.scale
                value = value if "float" in register.type else round(value)
            else:
                value = value.ljust(2 * register.count, "\0")
            words: list[int] = self._client.convert_to_registers(value, kind, register.words)
        except Exception as error:
            message = f"{value!r} does not fit the {register.type} register {register.name!r}"
            raise InvalidInput(message) from error
        if len(words) != register.end - register.address:
            raise InvalidInput(f"{value!r} is too long for the register {register.name!r}")
        return words


_EXCEPTIONS: Final = {
    1: "illegal function",
    2: "illegal data address",
    3: "illegal data value",
    4: "device failure",
    6: "device busy",
    10: "gateway path unavailable",
    11: "the device behind the gateway does not answer",
}


def _reason(error: Exception) -> str:
    text = str(error).removeprefix("Modbus Error: ")
    for prefix in ("[Connection] ", "[Input/Output] "):
        text = text.removeprefix(prefix)
    return text or type(error).__name__
