"""The broker of a run on this machine that was given none: it starts and ends with the run.

Its data stays in the folder of the flow, so that the next run continues where this one ended,
whatever ended it.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final
from urllib.parse import quote

from torvyn._io.files import FileLock, Locked, write_atomically
from torvyn._io.local_cluster import Broker
from torvyn._io.process_record import ProcessRecord
from torvyn._link.plan import Plan
from torvyn.cluster.local.broker import STOP_S, start_broker
from torvyn.cluster.local.options import UpOptions
from torvyn.cluster.local.ports import any_free_port
from torvyn.cluster.ray.failures import flow_runs
from torvyn.errors import ClusterError

logger = logging.getLogger("torvyn.cluster")

_POLL_S: Final = 0.1
_SIGTERM_WITH_PARENT: Final = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Becomes another program, which Linux ends when the thread that started it has ended."""


def broker_folder(plan: Plan) -> Path:
    return Path(plan.state_dir, quote(plan.name, safe=""), "broker")


@contextmanager
def run_broker(plan: Plan) -> Iterator[str]:
    """The URL of a broker that runs as long as the block."""
    folder = broker_folder(plan)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _only_run(plan, folder):
        broker = RunBroker(folder)
        try:
            yield broker.url
        finally:
            broker.stop()


class RunBroker:
    """Starts the broker again if it dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end_previous()
        self._options = UpOptions(nats_port=any_free_port())
        self._broker = self._start()
        self.url = self._broker.url
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="torvyn-broker", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        return self._broker.process.pid

    def stop(self) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._broker.process.end(STOP_S)
        self._record.unlink(missing_ok=True)

    @property
    def _record(self) -> Path:
        return self._folder / "process.json"

    def _start(self) -> Broker:
        wrapper = [sys.executable, "-c", _SIGTERM_WITH_PARENT] if sys.platform == "linux" else []
        return start_broker(self._folder, self._options, self._note, wrapper)

    def _note(self, broker: Broker) -> None:
        write_atomically(self._record, json.dumps(asdict(broker.process)), mode=0o600)

    def _end_previous(self) -> None:
        """Ends the broker of a run that was killed, on systems where it outlives the run."""
        with suppress(OSError, ValueError, TypeError):
            ProcessRecord(**json.loads(self._record.read_text())).end(STOP_S)

    def _watch(self) -> None:
        while not self._is_stopping.wait(_POLL_S):
            if not self._broker.process.is_running:
                logger.warning("the broker of the run died; it is started again")
                try:
                    self._broker = self._start()
                except ClusterError as error:
                    logger.error("%s", error.message)


@contextmanager
def _only_run(plan: Plan, folder: Path) -> Iterator[None]:
    try:
        lock = FileLock(folder / "lock", create=0o600).acquire()
    except Locked:
        raise flow_runs(plan) from None
    with lock:
        yield
