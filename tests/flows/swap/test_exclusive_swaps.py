"""Components with something that only one instance can have."""

import socket

import pytest

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import as_variant


class Listening(torvyn.Processor):
    """Has a port, and counts."""

    is_exclusive = True

    def __init__(self, port, version, fails=False):
        super().__init__()
        self.port, self.version, self.fails, self.count = port, version, fails, 0

    def init(self, config):
        if self.fails:
            raise torvyn.Unavailable("not ready")
        self.socket = socket.create_server(("127.0.0.1", self.port))

    def process(self, element):
        self.count += 1
        return f"{element.text}{self.version}{self.count}"

    def snapshot(self):
        return self.count

    def restore(self, state):
        self.count = state

    def teardown(self):
        if not self.fails:
            self.socket.close()


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def texts(elements):
    return [element.text for element in elements]


@pytest.mark.parametrize("mode", ["python", "thread"])
def test_the_old_component_gives_up_its_port_first(port, mode):
    first, second = (as_variant(Listening(port, version), mode) for version in "ab")
    flow, read = torvyn.Flow(["x"] * 1000, first), []
    for element in flow:
        read.append(element.text)
        if len(read) == 100:
            report = flow.swap("processor", second)

    assert [int(text[2:]) for text in read] == list(range(1, 1001))
    assert (read[0][1], read[-1][1], report.state) == ("a", "b", "restored")


def test_the_old_component_returns_if_the_new_one_cannot_start(port):
    flow = torvyn.Flow().add("node", Listening(port, "a"))
    read = texts(flow.feed("x"))
    with pytest.raises(FlowError, match="not ready") as caught:
        flow.swap("node", Listening(port, "b", fails=True))

    assert read + texts(flow.feed("y")) == ["xa1", "ya2"]
    assert caught.value.code == "reactor.init-failed"


def test_a_component_that_shares_its_port_is_refused_and_nothing_changes(port):
    class Shared(Listening):
        is_exclusive = False

    flow = torvyn.Flow().add("node", Shared(port, "a"))
    flow.feed("x")
    with pytest.raises(FlowError, match="in use"):
        flow.swap("node", Shared(port, "b"))

    assert texts(flow.feed("y")) == ["ya2"]


def test_a_successor_keeps_what_the_old_sink_has_written(tmp_path):
    path = tmp_path / "out.txt"
    config = {"path": str(path), "mode": "truncate"}
    flow = torvyn.Flow().add("out", "file", config=config)
    flow.feed("first")
    flow.swap("out", "file", config=config)
    flow.feed("second")

    assert path.read_text() == "first\nsecond\n"
