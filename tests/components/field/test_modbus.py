"""`modbus` against the server of pymodbus: types, errors per register, lost devices."""

import json
import threading

import pytest
from modbus_server import ModbusServer
from pymodbus import FramerType
from waiting import PATIENCE_S, eventually, pull_json

import torvyn
from torvyn import Element, InvalidInput, Unavailable
from torvyn.components import ModbusSink, ModbusSource
from torvyn.components.network.modbus_device import group_registers, parse_registers
from torvyn.components.network.poll_schedule import PollSchedule
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink, ScriptedSource

INPUTS = [
    {"name": "celsius", "address": 0, "kind": "input", "scale": 0.1},
    {"name": "level", "address": 1, "kind": "input", "type": "int16", "offset": 100},
    {"name": "count", "address": 2, "kind": "input", "type": "uint32"},
    {"name": "bar", "address": 6, "kind": "input", "type": "float32"},
    {"name": "label", "address": 8, "kind": "input", "type": "string", "count": 2},
    {"name": "pump", "address": 3, "kind": "coil"},
    {"name": "door", "address": 2, "kind": "discrete"},
]
HOLDING = [
    {"name": "target", "address": 0, "type": "int16", "scale": 0.1},
    {"name": "gain", "address": 2, "type": "float64", "words": "little"},
    {"name": "note", "address": 10, "type": "string", "count": 3},
    {"name": "valve", "address": 0, "kind": "coil"},
]


@pytest.fixture
def server(free_port):
    server = ModbusServer(free_port)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def source(running, server):
    def started(registers=INPUTS, **config):
        table = {"address": f"127.0.0.1:{server.port}", "registers": registers, "poll": "10ms"}
        return running(ModbusSource, json.dumps({**table, **config}))

    return started


@pytest.fixture
def sink(running, server):
    def started(registers=HOLDING, **config):
        table = {"address": f"127.0.0.1:{server.port}", "registers": registers}
        return running(ModbusSink, json.dumps({**table, **config}))

    return started


def test_registers_become_fields_of_their_types(source):
    (reading,) = pull_json(source(time_field=""))
    assert reading.pop("bar") == pytest.approx(10.6, abs=1e-6)
    assert reading == {
        "celsius": 21.3,
        "level": 99,
        "count": 1,
        "label": "hi!",
        "pump": True,
        "door": True,
    }


def test_a_reading_has_its_time_and_follows_the_interval(source):
    first, second = pull_json(source(), 2)
    assert first["time"].endswith("Z")
    assert first["time"] <= second["time"]


def test_a_register_that_the_device_refuses_does_not_hide_the_others(source):
    missing = {"name": "missing", "address": 5, "kind": "input"}
    beside = {"name": "beside", "address": 4, "kind": "input"}
    (reading,) = pull_json(source([beside, missing], time_field=""))
    assert reading == {
        "beside": 2,
        "missing": None,
        "errors": {"missing": "illegal data address"},
    }


def test_registers_that_follow_each_other_are_one_request():
    tables = [{"name": str(n), "address": n} for n in (0, 1, 2, 9, 200)]
    tables += [{"name": f"c{n}", "address": n, "kind": "coil"} for n in range(3)]
    groups = group_registers(parse_registers(ModbusSource.spec, tables))
    assert [len(group) for group in groups] == [3, 3, 1, 1]


def test_a_request_stays_within_the_limit_of_the_protocol():
    tables = [{"name": str(n), "address": n} for n in range(300)]
    groups = group_registers(parse_registers(ModbusSource.spec, tables))
    assert [len(group) for group in groups] == [125, 125, 50]


def test_what_was_written_is_read_back(sink, source):
    sink().push(Element('{"target": 21.5, "gain": -0.125, "note": "on", "valve": true}'))
    (reading,) = pull_json(source(HOLDING, time_field=""))
    assert reading == {"target": 21.5, "gain": -0.125, "note": "on", "valve": True}


@pytest.mark.parametrize(
    "record",
    [
        {"target": 99999},
        {"target": "warm"},
        {"target": True, "valve": 1},
        {"note": "too long for it"},
        {"other": 1},
    ],
)
def test_a_value_that_does_not_fit_is_rejected_and_nothing_written(sink, source, record):
    with pytest.raises(InvalidInput):
        sink().push(Element(json.dumps({"gain": 1.0, **record})))
    (reading,) = pull_json(source(HOLDING, time_field=""))
    assert reading == {"target": 0, "gain": 0, "note": "", "valve": False}


def test_a_register_that_cannot_be_written_is_named(sink):
    with pytest.raises(InvalidInput, match="refused the value of 'x': illegal data address"):
        sink([{"name": "x", "address": 500}]).push(Element('{"x": 1}'))


@pytest.mark.parametrize(
    "register",
    [
        {"address": 0},
        {"name": "a", "address": -1},
        {"name": "a", "address": 0, "type": "int8"},
        {"name": "a", "address": 0, "type": "bool"},
        {"name": "a", "address": 0, "kind": "coil", "type": "int16"},
        {"name": "a", "address": 0, "sclae": 1},
    ],
)
def test_a_wrong_register_is_rejected(source, register):
    with pytest.raises(ContractError):
        source([register])


def test_inputs_cannot_be_written_and_names_are_unique(sink, source):
    with pytest.raises(ContractError, match="'celsius' is an input"):
        sink(INPUTS)
    with pytest.raises(ContractError, match="twice"):
        source([INPUTS[0], INPUTS[0]])


def test_readings_continue_when_the_device_is_back(source, server):
    reader = source()
    pull_json(reader)
    server.stop()
    while not reader.connection.status.reason:
        reader.pull()
    again = ModbusServer(server.port)
    again.start()
    pull_json(reader)
    assert reader.connection.is_connected
    again.stop()


def test_a_device_that_is_away_may_be_an_error(running, free_port):
    config = {"address": f"127.0.0.1:{free_port}", "registers": INPUTS, "on_disconnect": "fail"}
    with pytest.raises(Unavailable, match=r"cannot read .*: cannot connect"):
        running(ModbusSource, json.dumps(config)).pull()


def test_a_sink_waits_for_its_device(running, free_port):
    config = {"address": f"127.0.0.1:{free_port}", "registers": HOLDING}
    sink = running(ModbusSink, json.dumps(config))
    pusher = threading.Thread(target=sink.push, args=(Element('{"target": 1}'),), daemon=True)
    pusher.start()
    eventually(lambda: sink.connection.status.reason)
    server = ModbusServer(free_port)
    server.start()
    pusher.join(PATIENCE_S)
    assert sink.connection.is_connected
    server.stop()


def test_readings_that_were_missed_are_left_out(clock):
    schedule = PollSchedule(10.0, clock)
    assert schedule.wait_s() == 0
    schedule.next()
    assert schedule.wait_s() == 10
    clock.now_s += 35
    schedule.next()
    assert schedule.wait_s() == 5


def test_a_flow_copies_registers(server):
    address = f"127.0.0.1:{server.port}"
    sink = CollectingSink()
    writer = ModbusSink({"address": address, "registers": HOLDING})
    torvyn.Flow(ScriptedSource(['{"target": 2.5}']), writer).run()
    reader = ModbusSource({"address": address, "registers": HOLDING, "poll": "1ms"})
    torvyn.Flow(reader, sink).limit(3).run()
    assert [json.loads(element.text)["target"] for element in sink.elements] == [2.5] * 3


def test_serial_frames_over_tcp_are_read(running, free_port):
    server = ModbusServer(free_port, framer=FramerType.RTU)
    server.start()
    config = {"address": f"127.0.0.1:{free_port}", "registers": INPUTS[:1], "framing": "rtu"}
    (reading,) = pull_json(running(ModbusSource, json.dumps(config)))
    assert reading["celsius"] == 21.3
    server.stop()
