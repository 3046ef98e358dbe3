"""The state of a component's connection: what is counted, logged and shown; and the delays."""

import logging

import pytest

import torvyn
from torvyn._cli.statistics import statistics_tables
from torvyn._io.connection import Connection
from torvyn.testing import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def connection(clock):
    return Connection("mqtt", "broker:1883", clock=clock)


def events(caplog):
    return [(record.levelname, record.event) for record in caplog.records]


def test_a_connection_that_flaps_counts_its_connects_failures_and_time_away(connection, clock):
    clock.advance(2.0)
    connection.connected()
    clock.advance(10.0)
    connection.lost("reset")
    clock.advance(3.0)
    connection.lost("refused")
    clock.advance(1.0)

    status = connection.status

    assert (status.state, status.reason, status.since_s) == ("waiting", "refused", 4.0)
    assert (status.connects, status.failures, status.away_s) == (1, 2, 3.0 + 1.0)


def test_a_change_is_logged_once_however_often_it_is_tried(connection, caplog):
    caplog.set_level(logging.INFO, "torvyn.connection")
    for reason in ("refused", "refused", "no route", "no route"):
        connection.lost(reason)
    connection.connected()
    connection.connected()

    assert events(caplog) == [
        ("WARNING", "connection.waiting"),
        ("WARNING", "connection.waiting"),
        ("INFO", "connection.connected"),
    ]


def test_a_rejection_is_an_error_with_a_hint_until_something_works(connection, clock, caplog):
    for number in range(3):
        connection.rejected(f"401, request {number}", "renew the token", cause="401")
        clock.advance(1.0)
    rejected = connection.status
    connection.lost("reset")
    connection.connected()

    assert (rejected.state, rejected.hint) == ("rejected", "renew the token")
    assert (rejected.failures, rejected.away_s) == (3, 3.0)
    assert connection.status.hint is None
    assert events(caplog) == [("ERROR", "connection.rejected"), ("WARNING", "connection.waiting")]


def test_a_closed_connection_is_silent_and_its_time_stops(connection, clock, caplog):
    connection.lost("refused")
    clock.advance(1.0)
    connection.close()
    caplog.clear()
    clock.advance(5.0)
    connection.lost("reset")

    assert (connection.status.state, connection.status.away_s) == ("closed", 1.0)
    assert caplog.records == []


class Connected(torvyn.Source):
    def init(self, config):
        self.connection = Connection("own", "device:7")
        self.connection.lost("unplugged")

    def pull(self):
        return None


def test_the_statistics_of_a_flow_show_the_connections_of_its_components():
    flow = torvyn.Flow(Connected(), torvyn.filter(lambda element: True))
    assert list(flow) == []

    nodes = flow.statistics.to_dict()["nodes"].values()

    assert [node["connection"] and node["connection"]["reason"] for node in nodes] == [
        "unplugged",
        None,
    ]
    assert "device:7" in statistics_tables(flow.statistics)
