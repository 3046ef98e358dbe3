"""A deployment of several flows: they run in one process, and are of one generation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_deployment import Running, running
from versioned_gateway import SECOND_NODE, add, delivered, lost, state_of

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.settings import DeploymentSettings

HISTORY = """
[flow.history]
checkpoint = "20ms"
priority = "{priority}"

[flow.history.nodes.readings]
component = "parts"

[flow.history.nodes.uplink]
component = "deliver"
config = {{ path = "{path}", version = "{version}" }}

[[flow.history.edges]]
from = "readings"
to = "uplink"
carrier = "disk"
"""
THIRD = """
[flow.third.nodes.readings]
component = "scripted"
config = { tokens = ["one"] }

[flow.third.nodes.sink]
component = "null"

[[flow.third.edges]]
from = "readings"
to = "sink"
"""


class Gateway:
    """A deployment with the flows `main` and `history`, each with its own output."""

    run: Running

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder / "gateway")
        self.main, self.history = folder / "main.txt", folder / "history.txt"

    def add(self, version: str, *, priority: str = "normal", more: str = "", **parts: Any) -> int:
        history = HISTORY.format(path=self.history, version=version, priority=priority)
        return add(self.deployment, version, self.main, extra=history + more, **parts)

    def start(self, **settings: Any) -> Iterator[None]:
        self.add("1.0.0")
        DeploymentSettings(**settings).write(self.deployment.settings_file)
        with running(self.deployment.folder, self.main) as self.run:
            self.run.wait_until_good(1)
            self.wait_for_version("1.0.0")
            yield
        for output in (self.main, self.history):
            numbers = [number for number, _ in delivered(output)]
            assert lost(output) == []
            assert len(numbers) == len(set(numbers)), "a reading was delivered twice"

    def update(self, version: str, **parts: Any) -> dict[str, Any]:
        """Makes another version current; returns how it took its place."""
        number = self.add(version, **parts)
        self.deployment.activate(number)
        self.run.wait_until_good(number)
        self.wait_for_version(version)
        return self.run.exchange()

    def wait_for_version(self, version: str) -> None:
        """Until each flow delivers something new in that version."""
        for output in (self.main, self.history):
            count = len(delivered(output))
            self.run.wait(
                f"{output.stem} in {version}",
                lambda output=output, count=count: (
                    version in [each for _, each in delivered(output)[count:]]
                ),
            )


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """It runs the two flows by their names."""
    made = Gateway(tmp_path)
    started = made.start(flows=("main", "history"))
    next(started)
    yield made
    next(started, None)


@pytest.fixture
def whole_gateway(tmp_path: Path) -> Iterator[Gateway]:
    """It runs all flows of its project."""
    made = Gateway(tmp_path)
    started = made.start(is_all=True)
    next(started)
    yield made
    next(started, None)


def test_an_update_swaps_the_components_of_all_flows_in_their_process(gateway: Gateway) -> None:
    process = gateway.run.process_of_flow()

    found = gateway.update("2.0.0")

    changes = {"main.uplink": ["config"], "history.uplink": ["config"]}
    assert (found["way"], found["changes"]) == ("swap", changes)
    assert gateway.run.process_of_flow() == process


def test_a_rollback_brings_all_flows_back(gateway: Gateway) -> None:
    gateway.update("2.0.0")
    gateway.deployment.roll_back()
    gateway.wait_for_version("1.0.0")

    assert gateway.run.exchange()["replaced"] == 2


def test_a_new_graph_of_one_flow_runs_in_the_process_of_all(
    gateway: Gateway, tmp_path: Path
) -> None:
    process = gateway.run.process_of_flow()

    found = gateway.update("2.0.0", more=SECOND_NODE.format(tmp_path / "copy.txt"))

    assert found["way"] == "restart"
    assert "flow `main`: node `copy` was added" in found["graph"]
    assert sorted(found["changes"]) == ["history.uplink", "main.uplink"]
    assert gateway.run.process_of_flow() == process


def test_what_one_flow_cannot_take_over_gives_all_a_new_process(gateway: Gateway) -> None:
    process = gateway.run.process_of_flow()

    found = gateway.update("2.0.0", priority="critical")

    assert (found["way"], found["changes"]) == ("process", {})
    assert "`priority` has changed" in found["reason"]
    assert gateway.run.process_of_flow() != process


def test_a_flow_that_cannot_start_brings_the_fallback_of_all_back(gateway: Gateway) -> None:
    fails = "assert not (config and 'history' in config['path'] and config['version'] > '1')"
    number = gateway.add("2.0.0", open=fails)
    gateway.deployment.activate(number)
    gateway.run.wait_for_current(1)
    gateway.wait_for_version("1.0.0")

    assert state_of(gateway.deployment.folder)["good"] == [1]


def test_a_flow_that_fails_later_has_all_started_again(gateway: Gateway, tmp_path: Path) -> None:
    trigger = tmp_path / "trigger"
    push = f"import os; 'history' in self.file.name and os.path.exists({str(trigger)!r}) and 1 / 0"
    gateway.update("2.0.0", push=push)
    process = gateway.run.process_of_flow()
    trigger.touch()
    gateway.run.wait("it fails", lambda: "flow `history` failed" in gateway.run.log())
    trigger.unlink()

    gateway.wait_for_version("2.0.0")

    assert "[torvyn] Flow 'main' drained." in gateway.run.log()
    assert gateway.run.process_of_flow() != process


def test_a_flow_that_a_generation_adds_runs_if_all_are_to(whole_gateway: Gateway) -> None:
    found = whole_gateway.update("2.0.0", more=THIRD)

    assert (found["way"], found["reason"]) == ("process", "flow `third` was added")
    assert "Flow 'third' completed." in whole_gateway.run.log()


def test_a_flow_that_has_ended_runs_again_with_the_next_generation(whole_gateway: Gateway) -> None:
    whole_gateway.update("2.0.0", more=THIRD)

    found = whole_gateway.update("3.0.0", more=THIRD)

    assert "flow `third` has ended" in found["reason"]
    assert whole_gateway.run.log().count("Flow 'third' completed.") == 2


def test_a_flow_that_a_generation_adds_does_not_run_if_others_are_named(gateway: Gateway) -> None:
    found = gateway.update("2.0.0", more=THIRD)

    assert found["way"] == "swap"
    assert "Flow 'third'" not in gateway.run.log()
