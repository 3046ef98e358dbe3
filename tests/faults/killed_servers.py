"""Servers that are killed while they answer, and clients that come back: for tests and figures."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WORDS = " ".join(f"word-{number}" for number in range(120))
MANIFEST = f"""
[torvyn]
name = "killed"
version = "0.1.0"
contract_version = "0.1.0"
[serve]
port = 0
session_store = "sessions.db"
[flow.chat.nodes.model]
component = "engine:scripted"
config = {{ text = "{WORDS}", delay = "2ms" }}
[flow.chat.nodes.policy]
component = "blocklist"
config = {{ words = "word-7", mode = "stream", action = "replace", replacement = "***" }}
[flow.chat.nodes.answer]
component = "response"
[[flow.chat.edges]]
from = "model"
to = "policy"
[[flow.chat.edges]]
from = "policy"
to = "answer"
"""
EXPECTED = WORDS.replace("word-7 ", "*** ")


@contextmanager
def server(
    folder: Path, *arguments: str, delay: str = "2ms"
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, killed at the end, and its address."""
    (folder / "Torvyn.toml").write_text(MANIFEST.replace("2ms", delay))
    command = [sys.executable, "-m", "torvyn", "serve", "--format", "json", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())["url"]
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


class Told:
    """What a client was told, over all its connections."""

    def __init__(self) -> None:
        self.id = ""
        self.last = ""
        self.texts: dict[int, str] = {}
        self.doubles = 0
        self.is_over = False

    @property
    def text(self) -> str:
        return "".join(self.texts[seq] for seq in sorted(self.texts))

    @property
    def lost(self) -> int:
        return max(self.texts, default=0) - len(self.texts)

    def take(self, lines: Any, stop_at: int | None = None) -> None:
        """Reads events to their end, to a cut, or until it has so many deltas."""
        event_id = ""
        for line in lines:
            if line.startswith(b"id: "):
                event_id = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                self._frame(json.loads(line[6:]))
                self.last = event_id or self.last
            if stop_at is not None and len(self.texts) >= stop_at:
                return

    def _frame(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "start":
            self.id = frame["id"]
        elif frame["type"] == "delta":
            self.doubles += frame["seq"] in self.texts
            self.texts[frame["seq"]] = frame["text"]
        elif frame["type"] == "end":
            self.is_over = True


def ask(url: str) -> Any:
    body = json.dumps({"prompt": "Hi", "stateful": True}).encode()
    return urllib.request.urlopen(f"{url}/v1/streams", body, timeout=10)


def come_back(url: str, told: Told) -> Any:
    request = urllib.request.Request(f"{url}/v1/streams/{told.id}")
    request.add_header("Last-Event-ID", told.last)
    return urllib.request.urlopen(request, timeout=10)


def killed_and_resumed(folder: Path, seed: int) -> tuple[Told, float]:
    """A server is killed at some delta, another one finishes; how long the first frame took."""
    told = Told()
    at = random.Random(seed).randrange(1, 60)
    with server(folder) as (process, url), ask(url) as answer:
        told.take(answer, stop_at=at)
        process.kill()
        with cut():
            told.take(answer)
    with server(folder) as (_, url):
        began_s = time.perf_counter()
        with come_back(url, told) as answer:
            answer.readline()
            took_s = time.perf_counter() - began_s
            told.take(answer)
    return told, took_s


@contextmanager
def cut() -> Iterator[None]:
    """What a client sees of a server that was killed while it read."""
    try:
        yield
    except (OSError, ValueError, urllib.error.URLError):
        return
    except Exception as error:
        if type(error).__name__ != "IncompleteRead":
            raise
