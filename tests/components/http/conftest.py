"""A scripted server, and sinks that are driven by hand."""

import pytest
from driven_sink import DrivenSink
from scripted_server import ScriptedServer

from torvyn.components import HttpSink as Http
from torvyn.components.config import config_text


@pytest.fixture
def server():
    server = ScriptedServer()
    yield server
    server.close()


class UnhurriedSink(DrivenSink):
    """Its delays are recorded and not waited for."""

    def __init__(self, sink):
        super().__init__(sink)
        self.delays = []
        self.on_delay = lambda: None
        uplink = sink._uplink
        next_delay_s = uplink._backoff.next_delay_s

        def record(at_least_s=0.0):
            self.delays.append(at_least_s)
            self.on_delay()
            next_delay_s(at_least_s)
            return 0.0

        uplink._backoff.next_delay_s = record


@pytest.fixture
def sink(start):
    def opened(url, **config):
        return UnhurriedSink(start(Http, config_text({"url": url, "device": "dev", **config})))

    return opened
