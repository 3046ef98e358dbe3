"""How one generation replaces another: by swapping components, or by exchanging the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running_deployment import Running, running
from versioned_gateway import SECOND_NODE, add, delivered, lost, state_of

from torvyn._deploy.deployment import Deployment

MARK = "__import__('sys').__dict__.setdefault('mark', [])"
"""Something that is true in the process of the first version, and false in a new one."""


class Gateway:
    """A deployment whose generation 1 is good and runs."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder / "gateway")
        self.output = folder / "delivered.txt"

    def add(self, version: str, **parts: Any) -> int:
        return add(self.deployment, version, self.output, **parts)

    def update(self, version: str, **parts: Any) -> dict[str, Any]:
        """Makes another version current; returns how it took its place."""
        number = self.add(version, **parts)
        self.deployment.activate(number)
        self.run.wait_until_good(number)
        found = self.run.exchange()
        assert found["generation"] == number
        return found

    run: Running


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Starts a gateway with the parts of its first version."""
    made, opened = Gateway(tmp_path), []

    def start(**parts: Any) -> Gateway:
        made.add("1.0.0", **parts)
        opened.append(running(made.deployment.folder, made.output))
        made.run = opened[0].__enter__()
        made.run.wait_until_good(1)
        return made

    yield start
    opened[0].__exit__(None, None, None)
    numbers = [number for number, _ in delivered(made.output)]
    assert lost(made.output) == []
    assert len(numbers) == len(set(numbers)), "a reading was delivered twice"


Start = Callable[..., Gateway]


def test_components_are_swapped_in_the_process_that_runs(gateway: Start) -> None:
    made = gateway()
    process = made.run.process_of_flow()

    found = made.update("2.0.0")

    assert (found["way"], found["changes"]) == ("swap", {"uplink": ["config"]})
    assert 0 < found["pause_ms"] < 1000
    assert made.run.process_of_flow() == process
    assert "generation 2 replaces 1: swapped uplink (config)" in made.run.log()


def test_nothing_is_swapped_when_no_node_has_changed(gateway: Start) -> None:
    made = gateway(extra="# one\n")

    found = made.update("1.0.0", extra="# two\n")

    assert (found["way"], found["changes"], found["pause_ms"]) == ("swap", {}, 0)


def test_a_new_graph_of_a_durable_flow_starts_in_the_same_process(gateway: Start) -> None:
    made = gateway()
    process, copy = made.run.process_of_flow(), made.output.with_name("copy.txt")

    found = made.update("2.0.0", extra=SECOND_NODE.format(copy))

    assert found["way"] == "restart"
    assert "node `copy` was added" in found["graph"]
    made.run.wait("the new node delivers", lambda: bool(delivered(copy)))
    assert made.run.process_of_flow() == process


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"files": {"wheels/extra-1.0-py3-none-any.whl": ""}}, "other Python packages"),
        ({"files": {"shared/table.json": "{}"}}, "`shared/table.json` has changed"),
        ({"extra": "[runtime]\ndrain_timeout = '7s'\n"}, "`runtime` has changed"),
        ({"restore": f"assert not {MARK}, 'an old state'"}, "an old state"),
    ],
    ids=["wheels", "shared-file", "setting", "state-refused"],
)
def test_what_cannot_be_swapped_gets_a_new_process_and_the_reason(
    gateway: Start, parts: dict[str, Any], reason: str
) -> None:
    made = gateway(init=f"{MARK}.append(1)")
    process = made.run.process_of_flow()

    found = made.update("2.0.0", **parts)

    assert found["way"] == "process"
    assert reason in found["reason"]
    assert made.run.process_of_flow() != process


def test_a_file_beside_the_code_of_a_node_is_its_code(gateway: Start) -> None:
    made = gateway(files={"parts/table.json": "[1]"})

    found = made.update("1.0.0", files={"parts/table.json": "[2]"})

    assert found["changes"] == {"readings": ["code"], "uplink": ["code"]}


def test_a_component_that_fails_is_swapped_back_in_the_same_process(gateway: Start) -> None:
    made = gateway()
    process = made.run.process_of_flow()
    made.deployment.activate(made.add("2.0.0", push="raise ValueError('no uplink')"))
    made.run.wait_for_current(1)
    made.run.wait("it is back", lambda: made.run.exchange()["generation"] == 1)

    found = made.run.exchange()
    assert (found["way"], found["replaced"]) == ("swap", 2)
    assert "ValueError: no uplink" in str(state_of(made.deployment.folder)["failed"])
    assert made.run.process_of_flow() == process


def test_a_rollback_swaps_back(gateway: Start) -> None:
    made = gateway()
    process = made.run.process_of_flow()
    made.update("2.0.0")
    made.deployment.roll_back()
    made.run.wait_for_version("1.0.0")

    assert made.run.versions() == ["1.0.0", "2.0.0", "1.0.0"]
    assert made.run.process_of_flow() == process


def test_a_generation_whose_code_still_runs_is_not_removed(gateway: Start) -> None:
    made = gateway()
    for version in ("2.0.0", "3.0.0", "4.0.0"):
        made.update(version)

    # The source has not changed since generation 1; the others are not used any more.
    assert made.deployment.collect() == [2]
    assert sorted(made.deployment.records()) == [1, 3, 4]
