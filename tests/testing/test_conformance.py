"""The checks: every built-in component passes, and broken components fail."""

import contextlib
import sqlite3

import pytest

import torvyn
from torvyn import testing
from torvyn._link.component_library import instantiate
from torvyn._link.plan import ComponentRef
from torvyn.components import BUILTINS, SINKS
from torvyn.testing import check

FITTING = {
    "lines": {"config": "input.txt"},
    "tail": {"config": "input.txt", "max_elements": 2},
    "csv": {"config": "input.txt"},
    "sqlite": {"config": {"path": "input.db", "follow": False}},
    "tcp": {"config": "127.0.0.1:0", "max_elements": 0},
    "udp": {"config": "127.0.0.1:0", "max_elements": 0},
    "serial": {"config": "absent", "max_elements": 0},
    "opcua": {
        "config": {"url": "opc.tcp://127.0.0.1:1", "nodes": {"a": "i=1"}},
        "max_elements": 0,
    },
    "modbus": {
        "config": {"address": "127.0.0.1:1", "registers": [{"name": "a", "address": 0}]},
        "max_elements": 0,
    },
    "nats": {"config": {"subject": "a", "servers": "127.0.0.1:1"}, "max_elements": 0},
    "http": {"config": "127.0.0.1:0", "max_elements": 0},
    "mqtt": {"config": {"url": "mqtt://127.0.0.1:1", "topics": "t"}, "max_elements": 0},
    "timer": {"config": {"interval": "1ms"}, "max_elements": 2},
    "blocklist": {"config": "one"},
    "pattern": {"config": r"o\w?"},
    "rate-limit": {"config": {"rate": 1000}},
    "json-map": {"config": {"pick": ["n"]}, "inputs": ['{"n": 1}', '{"n": 2, "x": 3}']},
    "by-field": {
        "config": {"field": "kind", "routes": {"a": "left"}, "default": "right"},
        "inputs": ['{"kind": "a"}', '{"kind": "b"}', "{}"],
    },
    "batch": {"config": {"size": 3}},
    "window": {"config": {"size": 3}},
    "join": {"config": {"within": "1s"}, "inputs": ['{"n": 1}', '{"n": 2}']},
    "file": {"config": "output.txt"},
}


FITTING_SINKS = {
    "csv": {"config": "output.csv", "inputs": ['{"n": 1}', '{"n": 2}']},
    "sqlite": {"config": "output.db", "inputs": ['{"n": 1}', '{"n": 2}']},
}
CASES = [
    *((target, FITTING.get(name, {})) for name, target in BUILTINS.items()),
    *((SINKS[name], options) for name, options in FITTING_SINKS.items()),
]


@pytest.mark.parametrize(("target", "options"), CASES)
def test_every_built_in_component_keeps_its_contract(target, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input.txt").write_text("one\ntwo\n")
    with contextlib.closing(sqlite3.connect("input.db")) as database, database:
        database.execute("CREATE TABLE elements AS SELECT 1 AS n UNION SELECT 2")
    options = dict(options)
    component = instantiate(ComponentRef("builtin", "part", target))
    check(type(component), options.pop("config", ""), **options)


def test_a_check_gives_what_left_the_component():
    class Shout(torvyn.Processor):
        def process(self, element):
            return element.text.upper()

    elements = testing.check_processor(Shout, inputs=["a", "b"])

    assert [element.text for element in elements] == ["A", "B"]


class WrongAnswer(torvyn.Filter):
    def evaluate(self, element):
        return "yes"


class NeedsInit(torvyn.Aggregator):
    """Resets its state only when it is created, not when it is initialised."""

    def __init__(self):
        super().__init__()
        self.first = True

    def ingest(self, element):
        once, self.first = self.first, False
        return "first" if once else None


class BreaksInTeardown(torvyn.Processor):
    def process(self, element):
        self.seen = True

    def teardown(self):
        assert self.seen


class UndeclaredPort(torvyn.Router):
    ports = ("left",)

    def route(self, element):
        return ["right"]


class NeverResumes(torvyn.Sink):
    def push(self, element):
        return torvyn.Signal.PAUSE


@pytest.mark.parametrize(
    ("component", "complaint"),
    [
        (WrongAnswer, "returned str"),
        (NeedsInit, "`init` must reset the state"),
        (UndeclaredPort, "right"),
    ],
)
def test_a_component_that_breaks_its_contract_is_found_out(component, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check(component)


def test_a_teardown_that_needs_an_element_is_found_out():
    with pytest.raises(AttributeError, match="seen"):
        check(BreaksInTeardown)


def test_a_sink_that_never_resumes_is_found_out():
    with pytest.raises(AssertionError, match="not done"):
        testing.check_sink(NeverResumes, timeout_s=0.05)


def test_a_component_of_another_role_is_refused():
    with pytest.raises(AssertionError, match="WrongAnswer is not a sink"):
        testing.check_sink(WrongAnswer)


def test_async_components_are_checked_as_well():
    class Later(torvyn.Filter):
        async def init(self, config):
            self.ready = True

        async def evaluate(self, element):
            return self.ready

    assert len(testing.check_filter(Later, inputs=["a"])) == 1
