"""`opcua` against the server of asyncua: changes, readings, lost servers."""

import json

import pytest
from opcua_server import OpcUaServer
from waiting import eventually, find_free_port, pull, pull_json

import torvyn
from failing_once import UNEXPECTED, fail_once
from torvyn import Unavailable
from torvyn.components import OpcUa
from torvyn.components.network.opcua_client import OpcUaClient
from torvyn.errors import ContractError
from torvyn.testing import CollectingSink

NODES = {"celsius": "ns=2;s=celsius", "pump": "ns=2;s=pump"}


@pytest.fixture(scope="module")
def shared_server():
    """One for all tests that do not stop it: it takes seconds to start."""
    server = OpcUaServer(find_free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def server(shared_server):
    shared_server.write("celsius", 21.5)
    shared_server.write("pump", True)
    return shared_server


@pytest.fixture
def source(running, server):
    def started(**config):
        table = {"url": server.url, "nodes": NODES, "interval": "20ms", "time_field": ""}
        return running(OpcUa, json.dumps({**table, **config}))

    return started


def test_changes_arrive_with_their_name(source, server):
    reader = source()
    first = sorted(pull_json(reader, 2), key=lambda change: change["name"])
    assert first == [{"name": "celsius", "value": 21.5}, {"name": "pump", "value": True}]
    server.write("celsius", 22.0)
    assert pull_json(reader, 1) == [{"name": "celsius", "value": 22.0}]


def test_a_change_has_the_time_of_the_server(source):
    assert all(change["time"].endswith("Z") for change in pull_json(source(time_field="time"), 2))


def test_all_nodes_may_be_read_together(source, server):
    reader = source(mode="poll")
    assert pull_json(reader, 2) == [{"celsius": 21.5, "pump": True}] * 2
    server.write("pump", False)
    while pull_json(reader, 1) != [{"celsius": 21.5, "pump": False}]:
        pass


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("poll", {"celsius": 21.5, "absent": None, "errors": {"absent": "BadNodeIdUnknown"}}),
        ("subscribe", {"name": "absent", "value": None, "status": "BadNodeIdUnknown"}),
    ],
)
def test_a_node_that_is_missing_does_not_hide_the_others(source, mode, expected):
    nodes = {"celsius": NODES["celsius"], "absent": "ns=2;s=absent"}
    reader = source(nodes=nodes, mode=mode)
    assert expected in pull_json(reader, 2)


@pytest.mark.parametrize("mode", ["poll", "subscribe"])
def test_values_continue_when_the_server_is_back(source, free_port, mode):
    first, second = OpcUaServer(free_port), OpcUaServer(free_port)
    first.start()
    reader = source(url=first.url, mode=mode)
    pull_json(reader, 1)
    first.stop()
    eventually(lambda: reader.connection.status.reason)
    second.start()
    second.write("celsius", 5.0)
    while "5.0" not in json.dumps(pull_json(reader, 1)):
        pass
    reader.teardown()
    second.stop()


def test_a_server_that_is_away_may_be_an_error(running, free_port):
    config = {"url": f"opc.tcp://127.0.0.1:{free_port}", "nodes": NODES, "on_disconnect": "fail"}
    with pytest.raises(Unavailable, match="connection refused"):
        pull(running(OpcUa, json.dumps(config)), 1)


@pytest.mark.parametrize("config", [{}, {"nodes": {}}, {"nodes": NODES, "interval": 0}])
def test_a_wrong_config_is_rejected(config):
    with pytest.raises(ContractError):
        OpcUa().init(json.dumps({"url": "opc.tcp://127.0.0.1:1", **config}))


def test_values_that_nobody_takes_are_counted(source, server):
    reader = source(mode="poll", capacity=2, interval="1ms")
    eventually(lambda: reader.dropped > 3)
    assert len(reader._inbox) == 2


def test_a_flow_reads_values(server):
    sink = CollectingSink()
    source = OpcUa({"url": server.url, "nodes": NODES, "mode": "poll", "interval": "5ms"})
    torvyn.Flow(source, sink).limit(3).run()
    assert [json.loads(element.text)["celsius"] for element in sink.elements] == [21.5] * 3


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_is_a_lost_connection(source, monkeypatch, error):
    fail_once(monkeypatch, OpcUaClient, "session", error)
    reader = source()

    assert len(pull(reader, 2)) == 2
    assert "an unexpected error" in reader.connection.status.reason
