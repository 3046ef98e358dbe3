"""A real server with API keys, whose output is recorded, for tests and benchmarks to attack."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torvyn.serve import app
from torvyn.transport.http import routes

MANIFEST = """
[torvyn]
name = "guarded"
version = "0.1.0"
contract_version = "0.1.0"
[serve]
port = 0
shutdown_grace = "200ms"
keys = "keys.json"
audit = "file"
[flow.chat.nodes.model]
component = "engine:scripted"
config = { text = "the answer is classified", delay = "60s", first_delay = "1ms" }
[flow.chat.nodes.answer]
component = "response"
[[flow.chat.edges]]
from = "model"
to = "answer"
"""
PRIVATE = "a private question"
BODIES = {
    "/v1/streams": {"prompt": PRIVATE},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": PRIVATE}], "stream": True},
    "/v1/completions": {"prompt": PRIVATE, "stream": True},
}
KEYED = [
    (method, path)
    for path, methods in app({}).router.paths.items()
    for method in methods
    if not routes.is_public(path)
]
WRONG = "tvk_" + "A" * 43


class World:
    """A project, its server and its keys; all that is written is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[str] = []
        (folder / "Torvyn.toml").write_text(MANIFEST)
        names = ("ours", "theirs", "gone")
        self.keys = {name: self.torvyn("keys", "add", name).strip() for name in names}

    def torvyn(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "torvyn", *arguments]
        options: Any = {"cwd": self.folder, "capture_output": True, "text": True}
        ran = subprocess.run(command, check=True, **options)
        self.seen.append(ran.stderr)
        return str(ran.stdout)

    def start(self) -> None:
        command = [sys.executable, "-m", "torvyn", "serve", "-vv", "--format", "json"]
        self.log = open(self.folder / "log", "w")  # noqa: SIM115
        self.server = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        assert self.server.stdout is not None
        self.port = int(json.loads(self.server.stdout.readline())["url"].rpartition(":")[2])

    def ask(self, method: str, path: str, key: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        body = json.dumps(BODIES[path]) if path in BODIES else None
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def refused(self, method: str, path: str, key: str | None) -> tuple[int, str]:
        answer = self.ask(method, path, key)
        text = answer.read().decode()
        self.seen += [text, str(answer.headers)]
        return answer.status, json.loads(text)["error"]["code"]

    def until_revoked(self, name: str) -> None:
        """The server looks at its file once a second."""
        end_s = time.monotonic() + 10
        while self.ask("GET", "/flows", self.keys[name]).status != 401:
            assert time.monotonic() < end_s, "it was never noticed"
            time.sleep(0.05)

    def end(self) -> None:
        self.server.terminate()
        out, _ = self.server.communicate(timeout=10)
        self.log.close()
        self.seen.append(out)


def stream_of(world: World, key: str) -> tuple[http.client.HTTPResponse, str]:
    """A stream that runs, and its id."""
    answer = world.ask("POST", "/v1/streams", key)
    head = answer.readline().decode()
    while "start" not in head:
        head = answer.readline().decode()
    return answer, re.findall(r"req-[0-9a-f]{32}", head)[0]


def everything_written(world: World) -> str:
    names = ("log", "keys.json", "torvyn-audit.jsonl")
    return "\n".join([*world.seen, *((world.folder / name).read_text() for name in names)])


@contextmanager
def serving(folder: Path) -> Iterator[World]:
    made = World(folder)
    made.start()
    try:
        yield made
    finally:
        made.end()
