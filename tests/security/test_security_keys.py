"""Every route of a real server, asked without a key, with a wrong, a revoked and another tenant's
key: answered 0. And everything that was written, looked through for the keys: found 0."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("granian", reason='serving is not tested: pip install "torvyn[serve]"')

from torvyn.transport import paths

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
    for path, methods in paths.PATHS.items()
    for method in methods
    if not paths.is_open(path)
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

    def end(self) -> None:
        self.server.terminate()
        out, _ = self.server.communicate(timeout=10)
        self.log.close()
        self.seen.append(out)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("keys"))
    made.start()
    try:
        yield made
    finally:
        made.end()


def stream_of(world: World, key: str) -> tuple[http.client.HTTPResponse, str]:
    """A stream that runs, and its id."""
    answer = world.ask("POST", "/v1/streams", key)
    head = answer.readline().decode()
    while "start" not in head:
        head = answer.readline().decode()
    return answer, re.findall(r"req-[0-9a-f]{32}", head)[0]


@pytest.mark.parametrize(("method", "path"), KEYED)
@pytest.mark.parametrize("key", [None, WRONG, "Bearer", "tvk_"])
def test_nobody_is_answered_without_a_key_of_the_server(
    world: World, method: str, path: str, key: str | None
) -> None:
    status, code = world.refused(method, path, key)

    wanted = "transport.key-missing" if key is None else "transport.key-wrong"
    assert (status, code) == (401, wanted)


@pytest.mark.parametrize("path", ["/nothing", "/v1/ws", "//v1/streams", "/v1/streams/", "/assets"])
def test_paths_that_are_none_are_not_told_apart_without_a_key(world: World, path: str) -> None:
    assert world.refused("POST", path, None) == (401, "transport.key-missing")


@pytest.mark.parametrize(
    "path", ["/assets/../v1/models", "/assets/..%2fflows", "/healthz/../flows"]
)
def test_no_way_round_leads_to_a_route_that_needs_a_key(world: World, path: str) -> None:
    status, _ = world.refused("GET", path, None)

    assert status in (401, 404)


@pytest.mark.parametrize(("method", "path"), [(m, p) for m, p in KEYED if "{id}" in p])
def test_another_tenants_streams_are_not_there(world: World, method: str, path: str) -> None:
    answer, id = stream_of(world, world.keys["ours"])
    found = world.refused(method, path.replace("{id}", id), world.keys["theirs"])
    flows = json.load(world.ask("GET", "/flows", world.keys["theirs"]))

    assert found == (404, "transport.stream-unknown")
    assert flows["streams"] == []
    assert world.ask("DELETE", f"/v1/streams/{id}", world.keys["ours"]).status == 202
    assert b"stopped_by" in answer.read()


@pytest.mark.timeout(60)
def test_revoking_ends_streams_without_a_restart_and_shuts_every_route(world: World) -> None:
    answer, _ = stream_of(world, world.keys["gone"])
    world.torvyn("keys", "revoke", "gone")
    rest = answer.read().decode()

    assert "transport.key-revoked" in rest
    assert '"end"' in rest
    found = {world.refused(method, path, world.keys["gone"]) for method, path in KEYED}
    assert found == {(401, "transport.key-wrong")}


def everything_written(world: World) -> str:
    names = ("log", "keys.json", "torvyn-audit.jsonl")
    return "\n".join([*world.seen, *((world.folder / name).read_text() for name in names)])


def test_nothing_that_was_written_holds_a_key_or_what_was_said(world: World) -> None:
    _, id = stream_of(world, world.keys["ours"])
    world.ask("DELETE", f"/v1/streams/{id}", world.keys["ours"]).read()
    world.refused("GET", "/flows", WRONG)
    # A key in a place where it does not belong, which a log may repeat.
    world.refused("GET", f"/{world.keys['ours']}", world.keys["ours"])
    text = everything_written(world)

    secrets = [*world.keys.values(), WRONG]
    assert [secret for secret in secrets if secret.removeprefix("tvk_") in text] == []
    assert not any(said in text for said in (PRIVATE, "classified"))
    assert all(event in text for event in ('"key.refused"', '"stream.started"'))


def test_the_arguments_of_the_server_do_not_show_a_key(world: World) -> None:
    shown = Path(f"/proc/{world.server.pid}/cmdline")
    if not shown.exists():
        pytest.skip("command lines cannot be read here")

    assert "tvk_" not in shown.read_text()


def test_many_wrong_keys_are_all_refused_and_fill_no_disk(world: World) -> None:
    def attack(_: int) -> int:
        return world.refused("GET", "/flows", "tvk_" + os.urandom(24).hex())[0]

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(attack, range(200)))
    lines = (world.folder / "torvyn-audit.jsonl").read_text().splitlines()

    assert statuses == [401] * 200
    # One a second after the first sixty, whatever was asked.
    assert sum('"key.refused"' in line for line in lines) < 150
