"""A gateway from MQTT to HTTP with a disk edge: killed, cut off, and left with a backlog.

Few rounds of what `python -m benches.reliability --only edge` measures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import missing
import pytest
from benches.edge import broker, scenarios
from benches.edge.gateway_process import Peer
from benches.edge.peers import torvyn_gateway
from benches.reliability.cases.edge_gateway import BATCH

import torvyn


@pytest.fixture(scope="module")
def gateway() -> Peer:
    if torvyn_gateway.missing() or not broker.program():
        missing.skip("mosquitto")
    return torvyn_gateway.peer(torvyn_gateway.DISK)


def test_readings_acknowledged_to_the_broker_survive_kill_9(gateway: Peer) -> None:
    result = scenarios.live_kills(gateway, count=4000, rate=1000, kills=3, seed=7)

    assert (result["lost"], result["out_of_order"]) == (0, 0)
    assert max(result["repeated_per_kill"]) <= BATCH
    assert len(result["recovery_ms"]) == 3
    assert max(result["recovery_ms"]) < 10_000


def test_the_template_of_a_gateway_stores_and_forwards(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torvyn", "init", "gw", "--template", "gateway"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    plan = torvyn.load(tmp_path / "gw" / "Torvyn.toml").flow().plan

    assert [edge.carrier for edge in plan.edges if edge.target == "uplink"] == ["disk"]


def test_a_collector_that_is_away_costs_no_reading(gateway: Peer) -> None:
    result = scenarios.outage(gateway, 2000, 2000, with_kill=False)

    assert (result["lost"], result["repeated"], result["out_of_order"]) == (0, 0, 0)


def test_old_readings_never_arrive_after_new_ones(gateway: Peer) -> None:
    result = scenarios.outage(gateway, 2000, 2000, with_kill=True)

    assert (result["lost"], result["out_of_order"]) == (0, 0)


def test_a_backlog_is_sent_in_pages_and_not_read_into_memory(gateway: Peer) -> None:
    result = scenarios.backlog_memory(gateway, 100_000)

    assert result["lost"] == 0
    assert result["peak_mib"] - result["idle_mib"] < 16
