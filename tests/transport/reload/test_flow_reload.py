"""SIGHUP: new answers go through the flow as its files are now; an open one keeps its version."""

from __future__ import annotations

import http.client
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from live_server import wait_for
from serve_process import MANIFEST, serving

SLOW = MANIFEST.replace("10ms", "300ms").replace("400ms", "5s")


class Running:
    def __init__(self, folder: Path, process: Any, url: str) -> None:
        self.file, self.process = folder / "Torvyn.toml", process
        self.port = int(urlsplit(url).port or 0)

    def change(self, old: str, new: str) -> None:
        self.file.write_text(self.file.read_text().replace(old, new))
        os.kill(self.process.pid, signal.SIGHUP)

    def begin(self) -> http.client.HTTPResponse:
        """An answer whose first part has arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/v1/streams", '{"prompt": "Hi"}')
        answer = connection.getresponse()
        answer.readline()
        return answer

    def answer(self) -> str:
        return self.begin().read().decode()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "Torvyn.toml").write_text(SLOW)
    with serving(tmp_path) as (process, url):
        yield Running(tmp_path, process, url)


def test_new_answers_use_the_new_flow_and_open_ones_finish_on_the_old(running: Running) -> None:
    open_answer = running.begin()
    running.change('words = "secret"', 'words = "two"')
    wait_for(lambda: "secret" in running.answer())

    assert "secret" not in open_answer.read().decode()


def test_a_flow_that_cannot_be_linked_is_reported_and_the_old_one_stays(running: Running) -> None:
    running.change('component = "blocklist"', 'component = "blocklits"')

    line = running.process.stderr.readline()
    while "keeps what it has" not in line:
        line = running.process.stderr.readline()
    assert "blocklits" in line
    assert "***" in running.answer()


def test_another_engine_needs_a_restart(running: Running) -> None:
    running.change("one secret two", "three")

    line = running.process.stderr.readline()
    while "keeps what it has" not in line:
        line = running.process.stderr.readline()
    assert "the engine of flow `chat` has changed" in line
