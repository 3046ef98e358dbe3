"""Reports of devices: sent, collected, shown."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from collecting import collecting

from failing_once import UNEXPECTED, fail_once
from torvyn._cli import app
from torvyn._cli.deploy_companions import make_report
from torvyn._deploy.collector import Collector, fetch_reports, stored_reports
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.report import MAX_BYTES, Heartbeat, Report
from torvyn._deploy.settings import DeploymentSettings
from torvyn.errors import TorvynError

REPORT = Report(
    "gw-1", "gateway", "2026-11-16T12:00:00Z", "0.1.0", 3, "gateway 1.2.0", 7, 7, "moving"
)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with collecting(tmp_path / "reports", "secret") as made:
        yield made


def post(collector: Collector, body: bytes, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", collector.server_port, timeout=10)
    connection.request("POST", "/reports", body, {"Authorization": "Bearer secret", **headers})
    return connection.getresponse().status


def test_a_report_that_is_written_and_read_is_the_same() -> None:
    assert Report.parse(json.dumps(REPORT.to_dict()).encode()) == REPORT


def test_a_heartbeat_reports_at_the_start_when_something_changes_and_at_the_end(
    collector: Collector,
) -> None:
    sent: list[int] = []
    arrived = threading.Condition()

    def report() -> Report:
        with arrived:
            sent.append(len(sent))
            arrived.notify_all()
        return REPORT

    with Heartbeat(collector.url, report, interval_s=3600, token="secret") as heartbeat, arrived:
        assert arrived.wait_for(lambda: len(sent) == 1, 10)
        heartbeat.soon()
        assert arrived.wait_for(lambda: len(sent) == 2, 10)

    assert len(sent) == 3
    assert list(stored_reports(collector.folder)) == [REPORT]


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_does_not_end_the_reports(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    reported = threading.Event()

    def report() -> Report:
        reported.set()
        return REPORT

    fail_once(monkeypatch, Heartbeat, "send", error)
    with Heartbeat(collector.url, report, interval_s=3600, token="secret"):
        assert reported.wait(20)


def test_a_report_of_several_flows_has_their_sums_and_the_worst_health(tmp_path: Path) -> None:
    def status(state: str, produced: int) -> dict[str, Any]:
        statistics = {"produced": produced, "emitted": produced, "errors": 1}
        return {"health": {"state": state}, "statistics": statistics}

    statuses = [status("moving", 5), status("waiting", 7), status("idle", 0)]
    run = SimpleNamespace(running=None, last_problem="", statuses=lambda: statuses)

    report = make_report(Deployment(tmp_path), DeploymentSettings(), run, None)  # type: ignore[arg-type]

    assert (report.produced, report.errors, report.health) == (12, 3, "waiting")


def test_only_the_newest_report_of_a_device_is_kept(collector: Collector) -> None:
    for health in ("moving", "stalled"):
        body = json.dumps(REPORT.to_dict() | {"health": health}).encode()
        assert post(collector, body) == 200

    assert [each.health for each in fetch_reports(collector.url, "secret")] == ["stalled"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {}, 400),
        (b"\xff", {}, 400),
        (json.dumps(REPORT.to_dict() | {"device": "../../etc/cron"}).encode(), {}, 400),
        (b" " * (MAX_BYTES + 1), {}, 413),
        (json.dumps(REPORT.to_dict()).encode(), {"Authorization": "Bearer wrong"}, 401),
        (json.dumps(REPORT.to_dict()).encode(), {"Authorization": ""}, 401),
    ],
    ids=["empty", "not-json", "path", "too-large", "wrong-token", "no-token"],
)
def test_a_bad_report_is_refused(
    collector: Collector, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert post(collector, body, **headers) == status
    assert list(collector.folder.iterdir()) == []


def test_a_collector_that_is_away_is_no_problem_for_a_device() -> None:
    assert not Heartbeat("http://127.0.0.1:9/reports", lambda: REPORT).send()


def test_a_collector_that_is_away_is_an_error_for_a_person() -> None:
    with pytest.raises(TorvynError, match="cannot fetch"):
        fetch_reports("http://127.0.0.1:9/reports", None)


def test_the_fleet_is_shown_as_a_table_and_as_json(
    collector: Collector, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    post(collector, json.dumps(REPORT.to_dict() | {"last_error": "no \x1b[31msensor"}).encode())
    token = tmp_path / "token"
    token.write_text("secret\n")

    assert app.run(["fleet", str(collector.folder)]) == 0
    shown = capfd.readouterr().out
    assert app.run(["fleet", collector.url, "--token-file", str(token), "--format", "json"]) == 0
    listed = json.loads(capfd.readouterr().out)["reports"]

    assert "gateway 1.2.0" in shown
    assert "\x1b" not in shown
    assert [each["device"] for each in listed] == ["gw-1"]
