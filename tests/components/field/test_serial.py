"""`serial` over a pair of pseudo-terminals: lines, unplugged devices."""

import json
import os
import pty
import threading
import tty

import pytest
from waiting import PATIENCE_S, eventually, pull

import torvyn
from torvyn import Element, InvalidInput, Unavailable
from torvyn.components import SerialSink, SerialSource
from torvyn.errors import ContractError
from torvyn.testing import ScriptedSource


class Device:
    """The other end of a port at a path, which can be unplugged."""

    def __init__(self, path):
        self.path = path
        self._ends = ()

    def plug_in(self):
        self._ends = pty.openpty()
        tty.setraw(self._ends[1])
        self.path.symlink_to(os.ttyname(self._ends[1]))

    def unplug(self):
        if self._ends:
            self.path.unlink()
            for end in self._ends:
                os.close(end)
            self._ends = ()

    def write(self, data):
        os.write(self._ends[0], data)

    def read(self, size):
        data = b""
        while len(data) < size:
            data += os.read(self._ends[0], size - len(data))
        return data


@pytest.fixture
def device(tmp_path):
    device = Device(tmp_path / "ttyUSB0")
    device.plug_in()
    yield device
    device.unplug()


@pytest.fixture
def source(running, device):
    def started(**config):
        source = running(SerialSource, json.dumps({"port": str(device.path), **config}))
        eventually(lambda: source.connection.is_connected)
        return source

    return started


def test_complete_lines_are_read_and_the_first_is_left_out(source, device):
    reader = source()
    device.write(b"3.5\r\n24.5\r\n25")
    assert pull(reader, 1) == ["24.5"]
    device.write(b".5\n")
    assert pull(reader, 1) == ["25.5"]


def test_the_first_line_may_be_kept(source, device):
    reader = source(skip_first=False, format="jsonl")
    device.write(b'{"a": 1}\n{"a":\n')
    assert pull(reader, 1)[0].content_type == "application/json"
    with pytest.raises(InvalidInput, match=r"a line from .*ttyUSB0 is not valid JSON"):
        pull(reader, 1)


def test_noise_without_a_line_end_does_not_fill_the_memory(source, device):
    reader = source(skip_first=False, max_line=100)
    for _ in range(50):
        device.write(b"\xff" * 1000)
    device.write(b"\nok\n")
    with pytest.raises(InvalidInput, match="longer than 100 bytes"):
        pull(reader, 1)
    assert pull(reader, 1) == ["ok"]


def test_an_unplugged_device_is_waited_for(source, device):
    reader = source(skip_first=False)
    device.write(b"before\nto")
    assert pull(reader, 1) == ["before"]
    device.unplug()
    eventually(lambda: reader.connection.status.reason)
    device.plug_in()
    eventually(lambda: reader.connection.is_connected)
    device.write(b"after\n")
    assert pull(reader, 1) == ["after"]


def test_a_missing_device_may_be_an_error(running, tmp_path):
    config = json.dumps({"port": str(tmp_path / "absent"), "on_disconnect": "fail"})
    with pytest.raises(Unavailable, match="no such file or directory"):
        pull(running(SerialSource, config), 1)
    with pytest.raises(Unavailable, match="no such file or directory"):
        running(SerialSink, config).push(Element("a"))


@pytest.mark.parametrize(
    "config", [{}, {"port": "p", "parity": "mark"}, {"port": "p", "data_bits": 4}]
)
def test_a_wrong_config_is_rejected(config):
    with pytest.raises(ContractError):
        SerialSource().init(json.dumps(config))


def test_a_sink_writes_lines(device):
    torvyn.Flow(ScriptedSource(["a", "b"]), SerialSink({"port": str(device.path)})).run()
    assert device.read(4) == b"a\nb\n"


def test_a_sink_waits_for_its_device(running, device):
    device.unplug()
    sink = running(SerialSink, str(device.path))
    pusher = threading.Thread(target=sink.push, args=(Element("a"),), daemon=True)
    pusher.start()
    eventually(lambda: sink.connection.status.reason)
    device.plug_in()
    pusher.join(PATIENCE_S)
    assert device.read(2) == b"a\n"
