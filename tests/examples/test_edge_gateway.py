"""The gateway of the example: what it detects, what it sends, and what an outage costs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from benches.detection import area_under_curve
from gateway_project import MakeProject

from torvyn._flow.statistics import Statistics
from torvyn.testing import Clock, FlowRun, check_account, idle, run_flow

pytestmark = pytest.mark.timeout(120)

ROWS = 10_000
"""River's own evaluation uses the first 10,000 readings."""
MIN_AUC = 0.985
WINDOW = 100


def check_windows(windows: list[dict[str, Any]], rows: int) -> None:
    """Every reading is in exactly one window, in order."""
    assert [window["first"] for window in windows] == list(range(0, rows, WINDOW))
    assert sum(window["count"] for window in windows) == rows


@pytest.mark.promise("edge.anomalies")
def test_the_detector_finds_the_anomalies(gateway: MakeProject) -> None:
    project = gateway(ROWS)

    scores = project.scores()

    assert len(scores) == ROWS
    assert area_under_curve(project.labels, scores) >= MIN_AUC


def test_the_measure_of_detection_is_right() -> None:
    assert area_under_curve([0, 0, 1, 1], [1.0, 2.0, 3.0, 4.0]) == 1.0
    assert area_under_curve([1, 0, 1, 0], [1.0, 2.0, 3.0, 4.0]) == 0.25
    assert area_under_curve([0, 1, 0, 1], [5.0, 5.0, 5.0, 5.0]) == 0.5


def test_each_stage_in_c_is_as_small_as_its_page_says(example_in_c: Path) -> None:
    built = [*example_in_c.glob("components/c/*/build/*.wasm")]

    assert len(built) == 5
    assert all(file.stat().st_size < 100 << 10 for file in built)


@pytest.mark.promise("edge.five-stages")
def test_every_reading_reaches_the_collector_in_a_window(gateway: MakeProject) -> None:
    project = gateway(1050)

    with project.collector():
        statistics = project.flow().run()

    check_windows(project.windows, 1050)
    assert statistics.produced == 1050
    assert statistics.live == 0


def test_a_window_has_the_figures_of_its_readings(gateway: MakeProject) -> None:
    project = gateway(WINDOW)
    with project.collector():
        project.flow().run()
    rows = project.readings

    [window] = project.windows

    assert (window["device"], window["site"], window["unit"]) == ("shuttle-1", "pad-39a", "counts")
    for column, figures in zip(zip(*rows, strict=True), window["channels"], strict=True):
        mean = pytest.approx(sum(column) / WINDOW)
        assert figures == {"min": min(column), "max": max(column), "mean": mean}


def test_anomalies_are_sent_whole(gateway: MakeProject) -> None:
    project = gateway(1000)
    scores = project.scores()
    with project.collector():
        project.flow().run()

    sent = [anomaly for window in project.windows for anomaly in window["anomalies"]]

    assert [each["seq"] for each in sent] == [i for i, score in enumerate(scores) if score > 15.0]
    assert all(each["channels"] == project.readings[each["seq"]] for each in sent)


@pytest.mark.promise("edge.reduction")
def test_the_aggregator_reduces_what_is_sent(gateway: MakeProject) -> None:
    project = gateway(ROWS)
    with project.collector():
        statistics = project.flow().run()

    sent = project.windows_file.stat().st_size
    assert sent * 4 < statistics.nodes["aggregator"].copied_bytes


def test_a_window_that_the_collector_rejects_is_kept_in_a_file(gateway: MakeProject) -> None:
    project = gateway(2 * WINDOW)

    with project.collector("--reject", "shuttle-1-0-99"):
        project.flow().run()

    rejected = json.loads((project.folder / "rejected.jsonl").read_text())
    assert json.loads(rejected["data"])["first"] == 0
    assert rejected["attributes"]["error"]["message"] == "the collector rejected the window"
    assert [window["first"] for window in project.windows] == [WINDOW]


@pytest.mark.promise("edge.sandbox")
def test_an_uplink_to_a_port_that_was_not_granted_is_denied_and_counted(
    gateway: MakeProject,
) -> None:
    project = gateway(2 * WINDOW)
    manifest = project.folder / "Torvyn.toml"
    text = manifest.read_text().replace("tcp-connect:127.0.0.1:8787", "tcp-connect:127.0.0.1:1")
    manifest.write_text(re.sub("on_error = .*", 'on_error = "skip"', text))

    with project.collector():
        statistics = project.flow().run()

    assert project.windows == []
    assert statistics.nodes["uplink"].denied == {"network:tcp-connect": 2}


@pytest.mark.promise("edge.outage")
def test_nothing_is_lost_while_the_collector_is_away_for_hours(gateway: MakeProject) -> None:
    project, clock = gateway(ROWS), Clock()
    with project.collector():
        pass
    run = run_flow(project.flow(clock=clock), until=idle)
    let_hours_pass(run, clock, 6)
    # All readings were taken and are on the disk, as windows.
    assert run.statistics.produced == ROWS
    assert stored(run.statistics) == ROWS / WINDOW

    with project.collector():
        # Every window that was tried in vain has a pause of its own.
        while run.flow.state != "completed":
            clock.advance(120.0)
            run.go(idle)

    check_windows(project.windows, ROWS)
    check_account(run.statistics)
    assert stored(run.statistics) == 0


def let_hours_pass(run: FlowRun, clock: Clock, hours: int) -> None:
    for _ in range(hours * 60):
        clock.advance(60.0)
        run.go(idle)


def stored(statistics: Statistics) -> int:
    """The elements on the disk."""
    [edge] = [edge for edge in statistics.edges if edge.carrier == "disk"]
    assert edge.stored is not None
    return edge.stored.elements


@pytest.mark.promise("edge.outage")
def test_a_power_cut_during_an_outage_loses_nothing(gateway: MakeProject) -> None:
    project = gateway(ROWS)
    with project.collector():
        pass
    project.run_until_stored(ROWS // WINDOW)  # and killed
    # Nothing can be read again: every window has to come from the disk.
    project.data.write_text(project.data.read_text().partition("\n")[0] + "\n")

    with project.collector():
        project.flow().run()

    check_windows(project.windows, ROWS)


@pytest.mark.promise("edge.reactor-state")
def test_a_gateway_that_waits_for_its_collector_takes_less_than_4_kb(gateway: MakeProject) -> None:
    project = gateway(4 * WINDOW + 50)
    run = run_flow(project.flow(clock=Clock()), until=idle)
    assert stored(run.statistics) == 5

    memory = run.flow.memory()

    # Five guests, the ends of the edge on disk, and the node of the dead letters.
    assert memory["state_bytes"] < 4096
