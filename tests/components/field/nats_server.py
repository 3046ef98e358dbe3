"""A real NATS server for tests, which can be stopped and started again."""

import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE_S = 20.0


def find_server():
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsServer:
    def __init__(self, port, folder, arguments=()):
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"
        place = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
        self._command = [find_server(), *place, *arguments]
        self._process = None

    def start(self):
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline_s, "the server does not start"
                assert self._process.poll() is None, "the server has ended"
                time.sleep(0.01)

    def send(self, how):
        self._process.send_signal(how)

    def stop(self, how=signal.SIGKILL):
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


needs_nats_server = pytest.mark.skipif(
    find_server() is None, reason="needs nats-server: make test-deps"
)
