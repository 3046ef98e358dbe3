"""Loops on which a flow depends: each survives an error that nobody expects, or says so."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from failing_once import UNEXPECTED
from torvyn._io.connection import Connection
from torvyn._io.restart import keep_running, keep_task_running

PACKAGE = Path(__file__).parents[2] / "python/torvyn"
STARTS = re.compile(r"\bThread\(|\bcreate_task\(|\bensure_future\(|run_coroutine_threadsafe\(")
KEEPS = re.compile(r"\bkeep_(task_)?running[(,]")
ROOMS = ("components", "_io", "_durable", "_deploy")
OTHERS = {
    "_deploy/collector.py": "the end of a command",
    "_deploy/deployment_run.py": "one request, whose every end is reported",
    "_durable/durable_run.py": "the wait for the last commit, with a limit",
    "_durable/nats/edges.py": "one purge, which the committer repeats",
    "_io/background_loop.py": "work that somebody waits for",
    "_io/http_client.py": "the end of a session",
    "_io/jetstream.py": "a reader that tries again whatever happens",
    "_io/nats.py": "one request, whose every end is reported",
    "_io/per_loop.py": "the end of a resource, with a limit",
    "_io/supervision.py": "the wait for the end of the parent",
    "components/network/jetstream.py": "a reconnect, which ends by itself",
}
"""Files with other threads and tasks, and why those need nobody who begins them again."""


class Loop:
    """Raises the errors, one per call, and then returns."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.reasons: list[str] = []
        self.waits_s: list[float] = []

    def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)

    async def in_task(self) -> None:
        self()


@pytest.mark.parametrize("error", UNEXPECTED)
def test_a_loop_that_fails_is_reported_and_begins_again_later(error: BaseException) -> None:
    loop = Loop(error, error)

    keep_running(loop, loop.waits_s.append, loop.reasons.append)

    kind = type(error).__name__
    assert loop.reasons == [f"an unexpected error: {kind}: injected"] * 2
    assert len(loop.waits_s) == 2
    assert not loop.errors


def test_a_loop_that_fails_while_it_is_stopped_ends() -> None:
    loop = Loop(RuntimeError(), RuntimeError())

    keep_running(loop, lambda delay_s: True)

    assert len(loop.errors) == 1


@pytest.mark.parametrize("error", UNEXPECTED)
def test_a_task_that_fails_is_reported_and_begins_again(error: BaseException) -> None:
    loop = Loop(error)

    asyncio.run(keep_task_running(loop.in_task, loop.reasons.append))

    assert len(loop.reasons) == 1
    assert not loop.errors


def test_a_report_that_fails_does_not_end_the_loop() -> None:
    loop = Loop(RuntimeError())

    def fail(_: str) -> None:
        raise ValueError("the component is gone")

    keep_running(loop, loop.waits_s.append, fail)

    assert not loop.errors


def test_a_loop_that_fails_for_ever_shows_as_a_lost_connection() -> None:
    connection = Connection("meter", "plc:502")
    connection.connected()

    keep_running(Loop(RuntimeError("injected")), lambda delay_s: True, connection.lost)

    status = connection.status
    assert (status.state, status.failures) == ("waiting", 1)
    assert status.reason == "an unexpected error: RuntimeError: injected"


def test_every_long_lived_thread_and_task_is_kept_running() -> None:
    files = {
        str(path.relative_to(PACKAGE)): path.read_text()
        for room in ROOMS
        for path in PACKAGE.joinpath(room).rglob("*.py")
    }
    starting = {name for name, text in files.items() if STARTS.search(text)}
    kept = {name for name in starting if KEEPS.search(files[name])}

    assert starting - kept <= set(OTHERS)
    assert set(OTHERS) <= starting
