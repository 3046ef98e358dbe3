"""A real NATS server for tests, which can be stopped and started again."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from open_port import is_open

PATIENCE_S = 20.0


def find_server():
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsServer:
    def __init__(self, port, folder, arguments=(), program=None):
        self.port = port
        self.url = f"nats://127.0.0.1:{port}"
        place = ["-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
        self._command = [program or find_server(), *place, *arguments]
        self._process = None

    def start(self):
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_open(self.port):
            assert time.monotonic() < deadline_s, "the server does not start"
            assert self._process.poll() is None, "the server has ended"
            time.sleep(0.01)

    @property
    def is_running(self):
        return self._process is not None and self._process.poll() is None

    def send(self, how):
        self._process.send_signal(how)
        if how == signal.SIGSTOP:
            # Until all of its threads stand still: one may answer a moment longer.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def stop(self, how=signal.SIGKILL):
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def ask(server, call):
    """Runs a coroutine function with a client and its JetStream context."""

    async def run():
        import nats

        client = await nats.connect(server.url, connect_timeout=5)
        try:
            return await call(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(run())


def add_stream(server, **config):
    async def call(client, js):
        await js.add_stream(name="S", subjects=["s.>"], **config)

    ask(server, call)


def publish(server, *texts, subject="s.a"):
    async def call(client, js):
        for text in texts:
            await js.publish(subject, text.encode())

    ask(server, call)


def stored(server):
    async def call(client, js):
        state = (await js.stream_info("S")).state
        numbers = range(state.first_seq, state.last_seq + 1) if state.messages else ()
        return [(await js.get_msg("S", number)).data.decode() for number in numbers]

    return ask(server, call)


def pending(server):
    async def call(client, js):
        found = await js.consumer_info("S", "d")
        return found.num_ack_pending + found.num_pending

    return ask(server, call)


def texts(outputs):
    return [output.data.decode() for output in outputs]


class NatsCluster:
    """Three servers of one cluster, on ports of their own. Use it in a `with` statement."""

    def __init__(self, ports, folder):
        """`ports`: six free ones."""
        self.ports, routes = ports[:3], ports[3:]
        self.url = ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)
        self.servers = []
        known = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
        for number, (port, route) in enumerate(zip(self.ports, routes, strict=True)):
            place = ["--cluster_name", "c", "--cluster", f"nats://127.0.0.1:{route}"]
            arguments = ["-n", f"n{number}", *place, "--routes", known]
            self.servers.append(NatsServer(port, Path(folder, f"n{number}"), arguments))

    def __enter__(self):
        for server in self.servers:
            server.start()
        deadline_s = time.monotonic() + PATIENCE_S
        while not self._is_ready():
            assert time.monotonic() < deadline_s, "the cluster does not store anything"
            time.sleep(0.05)
        return self

    def _is_ready(self):
        """Whether a stream can be made on all of them."""
        import nats

        async def call(client, js):
            await js.add_stream(name="READY", subjects=["ready"], num_replicas=3)
            await js.delete_stream("READY")

        try:
            ask(self.servers[0], call)
        except (OSError, nats.errors.Error):
            return False
        return True

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()

    def leader_of(self, stream):
        """The number of the server that leads a stream, and None while there is none."""
        import nats

        async def call(client, js):
            return (await js.stream_info(stream)).cluster.leader

        for server in self.servers:
            if not server.is_running:
                continue
            try:
                leader = ask(server, call)
            except (OSError, nats.errors.Error):
                continue
            return int(leader.removeprefix("n")) if leader else None
        return None
