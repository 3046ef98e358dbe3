"""What groups print arrives, in order and whole, also from a process that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from torvyn._cluster.output import STDERR, STDOUT, OutputAddress, OutputRelay


class Printed:
    """Collects what was printed."""

    def __init__(self) -> None:
        self.text = {STDOUT: b"", STDERR: b""}
        self._changed = threading.Condition()

    def write(self, stream: int, data: bytes) -> None:
        with self._changed:
            self.text[stream] += data
            self._changed.notify_all()

    def wait_for(self, text: bytes, stream: int = STDOUT) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.text[stream], 20)


@pytest.fixture
def printed() -> Printed:
    return Printed()


@pytest.fixture
def relay(printed: Printed) -> Iterator[OutputRelay]:
    relay = OutputRelay(printed.write)
    yield relay
    relay.close()


def test_both_streams_arrive(relay: OutputRelay, printed: Printed) -> None:
    address = relay.address()
    with address.connect(STDOUT) as out, address.connect(STDERR) as err:
        out.sendall(b"a\n")
        err.sendall(b"b\n")
    relay.close()

    assert printed.text == {STDOUT: b"a\n", STDERR: b"b\n"}


def test_a_line_is_not_broken_by_another_process(relay: OutputRelay, printed: Printed) -> None:
    address = relay.address()
    with address.connect(STDOUT) as first, address.connect(STDOUT) as second:
        first.sendall(b"one ")
        printed.wait_for(b"one ")
        second.sendall(b"two\n")
        first.sendall(b"line\n")
        printed.wait_for(b"two\n")

    assert printed.text[STDOUT] == b"one line\ntwo\n"


def test_a_line_that_nobody_finishes_holds_nobody_up(relay: OutputRelay, printed: Printed) -> None:
    address = relay.address()
    with address.connect(STDOUT) as first, address.connect(STDOUT) as second:
        first.sendall(b"unfinished")
        printed.wait_for(b"unfinished")
        second.sendall(b"two\n")

        printed.wait_for(b"two\n")


def test_a_stranger_prints_nothing(relay: OutputRelay, printed: Printed) -> None:
    address = relay.address()
    with OutputAddress(address.host, address.port, "guess").connect(STDOUT) as stranger:
        stranger.settimeout(20)
        with suppress(ConnectionError):
            stranger.sendall(b"hello\n" * 200)
            assert stranger.recv(1) == b"", "the relay hangs up"
    relay.close()

    assert printed.text[STDOUT] == b""


def test_a_process_introduces_itself_once(relay: OutputRelay, printed: Printed) -> None:
    started: list[str] = []
    relay.on_start = started.append
    address = replace(relay.address(), process="counts.1")
    with address.connect(STDOUT) as out, address.connect(STDERR) as err:
        out.sendall(b"a\n")
        err.sendall(b"b\n")
    relay.close()

    assert started == ["counts.1"]
    assert printed.text == {STDOUT: b"a\n", STDERR: b"b\n"}


PROCESS = """
import os, sys
from torvyn._cluster.output import forward_output
from torvyn._cluster.output import OutputAddress

with forward_output(OutputAddress("127.0.0.1", int(sys.argv[1]), sys.argv[2], True)):
    print("printed", sys.stdout.isatty())
    os.write(1, b"by a library\\n")
    sys.stderr.write("logged\\n")
    if len(sys.argv) > 3:
        os.kill(os.getpid(), 9)
print("after")
"""


@pytest.mark.parametrize("kill", [(), ("kill",)])
def test_the_streams_of_a_process_arrive(
    relay: OutputRelay, printed: Printed, kill: tuple[str, ...]
) -> None:
    address = relay.address()
    command = [sys.executable, "-c", PROCESS, str(address.port), address.token, *kill]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    relay.close()

    assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    assert printed.text == {STDOUT: b"printed True\nby a library\n", STDERR: b"logged\n"}
    assert done.stdout == (b"" if kill else b"after\n")
