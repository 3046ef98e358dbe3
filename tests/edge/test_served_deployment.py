"""A served project is updated: answers finish on the version that began them, and no connection is
refused meanwhile."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_deployment import Running, running

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, TITLE, ImageManifest
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.settings import DeploymentSettings
from torvyn._deploy.update import add_from_layout

MANIFEST = """
[torvyn]
name = "chat"
version = "1.0.0"
contract_version = "0.1.0"

[serve]
port = {port}
shutdown_grace = "10s"

[flow.chat.nodes.model]
component = "engine:scripted"
config = {{ text = "{text}", delay = "{delay}" }}

[flow.chat.nodes.policy]
component = "blocklist"
config = {{ words = "secret", mode = "stream", action = "replace", replacement = "{mark}" }}

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "policy"

[[flow.chat.edges]]
from = "policy"
to = "answer"
"""


class Served:
    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder / "chat")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.add(mark="one")
        DeploymentSettings(command="serve").write(self.deployment.settings_file)

    def add(self, mark: str, text: str = "a b c d e f g h i secret", delay: str = "100ms") -> int:
        layout = Layout.create(self.deployment.folder.parent / "dist")
        manifest = MANIFEST.format(port=self.port, mark=mark, text=text, delay=delay)
        files = {"Torvyn.toml": manifest, "provenance.json": "{}"}
        layers = tuple(
            layout.add("text/plain", text.encode(), {TITLE: path}) for path, text in files.items()
        )
        descriptor = layout.add_manifest(ImageManifest(PROJECT, layers, {TITLE: "chat"}))
        return add_from_layout(self.deployment, layout, descriptor, "dist").number

    def update(self, run: Running, **parts: Any) -> dict[str, Any]:
        number = self.add(**parts)
        self.deployment.activate(number)
        run.wait_until_good(number)
        return run.exchange()

    def begin(self) -> http.client.HTTPResponse:
        """An answer whose first part has arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/v1/streams", '{"prompt": "Hi"}')
        answer = connection.getresponse()
        answer.readline()
        return answer

    def answer(self) -> str:
        return self.begin().read().decode()


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path)


@pytest.fixture
def run(served: Served, tmp_path: Path) -> Iterator[Running]:
    with running(served.deployment.folder, tmp_path / "unused") as made:
        made.wait_until_good(1)
        yield made


def test_a_new_version_of_the_flow_takes_new_answers_in_the_same_process(
    served: Served, run: Running
) -> None:
    process, before = run.process_of_flow(), served.begin()

    found = served.update(run, mark="two")

    assert (found["way"], found["changes"]) == ("swap", {"flow chat": ["version"]}), found["reason"]
    assert "two" in served.answer()
    assert "one" in before.read().decode()
    assert run.process_of_flow() == process


def test_another_engine_gets_a_new_process_while_open_answers_finish_on_the_old_one(
    served: Served, run: Running
) -> None:
    before = served.begin()

    found = served.update(run, mark="two", text="x y secret")

    assert (found["way"], found["pause_ms"]) == ("process", 0)
    assert "the engine of flow `chat` has changed" in found["reason"]
    assert "two" in served.answer()
    assert "one" in before.read().decode()


def test_no_connection_is_refused_while_the_process_is_exchanged(
    served: Served, run: Running
) -> None:
    number = served.add(mark="two", text="secret", delay="0ms")
    served.deployment.activate(number)

    answers = [served.answer()]
    while "two" not in answers[-1]:
        answers.append(served.answer())

    assert all("one" in answer for answer in answers[:-1])


def test_a_server_that_crashes_keeps_its_port(served: Served, run: Running) -> None:
    import os
    import signal

    os.kill(run.process_of_flow(), signal.SIGKILL)

    # The connection waits until the next process accepts it.
    assert "one" in served.answer()
