"""Fixtures for the tests of `nats`: a server, sources and sinks."""

import contextlib
import json

import pytest

from nats_server import NatsServer
from torvyn.components import NatsSink, NatsSource


@pytest.fixture
def start_server(tmp_path, free_port):
    """Starts one server with arguments of its own, and stops it."""
    with contextlib.ExitStack() as stack:

        def started(*arguments):
            server = NatsServer(free_port, tmp_path / "nats", arguments)
            stack.callback(server.stop)
            server.start()
            return server

        yield started


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def source(running, server):
    def started(**config):
        table = {"servers": server.url, **config}
        return running(NatsSource, json.dumps(table))

    return started


@pytest.fixture
def reader(source):
    return lambda **config: source(**{"stream": "S", "durable": "d", **config})


@pytest.fixture
def sink(running, server):
    def started(**config):
        return running(NatsSink, json.dumps({"servers": server.url, "subject": "s.a", **config}))

    return started
