"""A component whose package is not installed says which, and how to install it."""

import json
import re
import sys

import pytest

from torvyn.components import ModbusSource as Modbus
from torvyn.components import NatsSource as Nats
from torvyn.components import OpcUa
from torvyn.components import SerialSource as Serial
from torvyn.errors import MissingError


@pytest.mark.parametrize(
    ("cls", "package", "config"),
    [
        (Nats, "nats", {"subject": "a"}),
        (Modbus, "pymodbus", {"address": "a", "registers": [{"name": "a", "address": 0}]}),
        (Serial, "serialx", {"port": "a"}),
        (OpcUa, "asyncua", {"url": "opc.tcp://a", "nodes": {"a": "i=1"}}),
    ],
)
def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch, cls, package, config):
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingError, match=f"needs the package `{package}`") as caught:
        cls().init(json.dumps(config))
    assert re.match(f"install it: pip install .*{package}", caught.value.hint)
