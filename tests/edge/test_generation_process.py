"""What the process of a generation says about itself, and what its silence means."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from failing_once import UNEXPECTED, fail_once
from torvyn._deploy.generation_process import GenerationProcess
from torvyn._deploy.generation_state import GenerationRecord
from torvyn.testing import Clock

RECORD = GenerationRecord(1, "sha256:0", "dist", "2026-11-16T12:00:00Z")
STALL_S = 60.0


class Observed:
    """A process that does nothing; the test speaks for it."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self._heard = threading.Semaphore(0)
        lock = os.open(os.devnull, os.O_RDONLY)
        self.process = GenerationProcess(
            RECORD,
            ["sleep", "600"],
            folder,
            data=folder,
            stall_s=STALL_S,
            lock=lock,
            wake=self._heard.release,
            sockets={},
            clock=self.clock,
        )
        os.close(lock)

    def tell(self, message: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(message.encode(), str(self.process._address))

    def told(self, message: str) -> GenerationProcess:
        """Returns when the message was understood."""
        self.tell(message)
        assert self._heard.acquire(timeout=20)
        return self.process


@pytest.fixture
def observed(tmp_path: Path) -> Iterator[Observed]:
    made = Observed(tmp_path)
    yield made
    made.process.close()


def test_a_process_that_feeds_its_watchdog_is_not_stalled(observed: Observed) -> None:
    observed.told("READY=1")
    for _ in range(5):
        observed.clock.advance(0.9 * STALL_S)
        assert not observed.told("WATCHDOG=1").is_stalled


def test_a_process_that_says_nothing_any_more_is_stalled(observed: Observed) -> None:
    process = observed.told("READY=1")
    observed.clock.advance(STALL_S + 1)

    assert process.is_stalled


def test_a_process_that_is_being_prepared_may_take_its_time(observed: Observed) -> None:
    process = observed.told("X_TORVYN_PREPARED=1")
    observed.clock.advance(10 * STALL_S)

    assert not process.is_stalled


def test_a_process_that_reports_a_stalled_flow_is_stalled(observed: Observed) -> None:
    observed.told("READY=1")

    assert observed.told("WATCHDOG=trigger").is_stalled


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_does_not_end_the_listening(
    observed: Observed, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    has_failed = fail_once(monkeypatch, GenerationProcess, "_receive", error)
    observed.tell("STATUS=lost")
    assert has_failed.wait(20)

    assert observed.told("READY=1").is_ready
