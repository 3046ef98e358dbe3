"""A scripted server, and sinks that are driven by hand."""

import asyncio

import pytest
from scripted_server import ScriptedServer

from torvyn.components.builtin.sink_http import Http
from torvyn.components.config import config_text


@pytest.fixture
def server():
    server = ScriptedServer()
    yield server
    server.close()


class DrivenSink:
    """A sink outside a flow, whose delays are recorded and not waited for."""

    def __init__(self, url, **config):
        self.sink = Http()
        self.sink.init(config_text({"url": url, "device": "dev", **config}))
        self.delays = []
        self.on_delay = lambda: None
        uplink = self.sink._uplink
        next_delay_s = uplink._backoff.next_delay_s

        def record(at_least_s=0.0):
            self.delays.append(at_least_s)
            self.on_delay()
            next_delay_s(at_least_s)
            return 0.0

        uplink._backoff.next_delay_s = record

    def push(self, *elements):
        asyncio.run(asyncio.wait_for(self.sink.push_batch(elements), 20))


@pytest.fixture
def sink():
    opened = []

    def open_sink(url, **config):
        opened.append(DrivenSink(url, **config))
        return opened[-1]

    yield open_sink
    for each in opened:
        each.sink.teardown()
