"""`torvyn deploy channel` and `follow`: from a release engineer's desk to a running gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from channel_server import channel_server
from collecting import collecting
from running_deployment import running
from versioned_gateway import lost, pack, state_of

from failing_once import UNEXPECTED, fail_once
from torvyn.artifact.signature.keys import SigningKey
from torvyn.cli import app
from torvyn.edge.reporting.collector import stored_reports
from torvyn.edge.update.follow_loop import FollowLoop
from torvyn.edge.update.updater import Updater, UpdateResult, UpdateState

Deploy = Callable[..., Any]


@pytest.fixture
def deploy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Deploy:
    """Runs a command of `deploy` and returns the document that it prints."""

    def call(*arguments: object, code: int = 0) -> Any:
        words = ["deploy", *map(str, arguments), "--format", "json"]
        assert app.run(words) == code, capfd.readouterr()
        out, err = capfd.readouterr()
        return json.loads(out if code == 0 else err)

    return call


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder that the web server serves."""
    for name in ("release", "next"):
        SigningKey.generate(name=name).write(tmp_path / name)
    (tmp_path / "site").mkdir()
    return tmp_path / "site"


def release(deploy: Deploy, site: Path, version: str, key: str = "release", **parts: Any) -> None:
    """Packs a version and publishes it."""
    pack(site, version, site.parent / "delivered.txt", **parts)
    artifact, keyfile = f"gateway=oci:{site}:{version}", site.parent / key
    deploy("channel", "sign", site / "channel.json", "--artifact", artifact, "--key", keyfile)


@pytest.mark.promise("edge.remote-updates")
def test_a_gateway_follows_its_channel_from_nothing_to_the_second_version(
    deploy: Deploy, site: Path
) -> None:
    folder, output = site.parent / "root" / "gateway", site.parent / "delivered.txt"
    release(deploy, site, "1.0.0")
    with channel_server(site) as server:
        follow = ("follow", "gateway", f"{server.url}/channel.json", "--interval", "200ms")
        deploy(*follow, "--key", site.parent / "release.pub", "--root", folder.parent)
        with running(folder, output) as run:
            run.wait_until_good(1)
            release(deploy, site, "2.0.0")
            run.wait_until_good(2)

    assert run.versions() == ["1.0.0", "2.0.0"]
    assert lost(output) == []
    assert state_of(folder)["channel"]["version"] == 2  # type: ignore[index]


@pytest.mark.promise("edge.remote-updates")
def test_a_version_that_fails_on_the_gateway_is_rolled_back_and_not_tried_again(
    deploy: Deploy, site: Path
) -> None:
    folder, output = site.parent / "root" / "gateway", site.parent / "delivered.txt"
    release(deploy, site, "1.0.0")
    follow = ("follow", "gateway", site / "channel.json", "--interval", "200ms")
    deploy(*follow, "--key", site.parent / "release.pub", "--root", folder.parent)
    with running(folder, output) as run:
        run.wait_until_good(1)
        release(deploy, site, "2.0.0", init="raise RuntimeError('no sensor')")
        run.wait("it failed", lambda: bool(state_of(folder)["failed"]))
        run.wait_for_current(1)
        assert deploy("update", "gateway", "--root", folder.parent)["state"] == "failed-before"
        release(deploy, site, "3.0.0")
        run.wait_until_good(3)

    assert run.versions() == ["1.0.0", "3.0.0"]
    assert lost(output) == []


def test_a_running_gateway_reports_what_it_runs(deploy: Deploy, site: Path) -> None:
    folder, output = site.parent / "root" / "gateway", site.parent / "delivered.txt"
    release(deploy, site, "1.0.0")
    with collecting(site.parent / "reports") as collector:
        follow = ("follow", "gateway", site / "channel.json", "--interval", "200ms")
        report = ("--heartbeat", collector.url, "--device", "gw-1")
        keys = ("--key", site.parent / "release.pub", "--root", folder.parent)
        deploy(*follow, *report, *keys)
        with running(folder, output) as run:
            run.wait("it reports", lambda: any(r.version for r in stored_reports(collector.folder)))
        (last,) = stored_reports(collector.folder)

    assert (last.device, last.project, last.version) == ("gw-1", "gateway 1.0.0", 1)


def test_keys_are_changed_by_old_and_new_keys(deploy: Deploy, site: Path) -> None:
    channel, folder = site / "channel.json", site.parent / "root"
    release(deploy, site, "1.0.0")
    deploy("follow", "gateway", channel, "--key", site.parent / "release.pub", "--root", folder)
    keys = ("--key", site.parent / "release", "--new-key", site.parent / "next")

    assert deploy("channel", "rotate", channel, *keys)["version"] == 2
    release(deploy, site, "2.0.0", key="next")

    assert deploy("update", "gateway", "--root", folder)["version"] == 3
    release(deploy, site, "3.0.0", key="release")
    problem = deploy("update", "gateway", "--root", folder, code=2)["problems"][0]
    assert problem["code"] == "edge.channel-untrusted"


def test_a_channel_is_verified_as_a_device_would(deploy: Deploy, site: Path) -> None:
    release(deploy, site, "1.0.0")
    channel = site / "channel.json"

    verified = deploy("channel", "verify", channel, "--key", site.parent / "release.pub")
    wrong = deploy("channel", "verify", channel, "--key", site.parent / "next.pub", code=2)

    assert verified["version"] == 1
    assert wrong["problems"][0]["code"] == "edge.channel-untrusted"
    assert deploy("channel", "show", channel)["remark"] == "was not verified"


def test_two_people_sign(deploy: Deploy, site: Path) -> None:
    release(deploy, site, "1.0.0")
    channel = site / "channel.json"
    keys = ("--key", site.parent / "release.pub", "--key", site.parent / "next.pub")
    deploy("channel", "verify", channel, *keys, "--threshold", 2, code=2)

    deploy("channel", "countersign", channel, "--key", site.parent / "next")

    assert deploy("channel", "verify", channel, *keys, "--threshold", 2)["version"] == 1


def test_a_project_that_cannot_be_linked_here_is_refused_before_anything_stops(
    deploy: Deploy, site: Path
) -> None:
    channel, folder = site / "channel.json", site.parent / "root"
    release(deploy, site, "1.0.0")
    deploy("follow", "gateway", channel, "--key", site.parent / "release.pub", "--root", folder)
    deploy("update", "gateway", "--root", folder)
    release(deploy, site, "2.0.0", extra='[flow.main.nodes.x]\ncomponent = "missing"\n')

    problem = deploy("update", "gateway", "--root", folder, code=2)["problems"][0]

    assert problem["code"] == "edge.check-failed"
    assert state_of(folder / "gateway")["current"] == 1


def test_following_needs_a_key(deploy: Deploy, site: Path) -> None:
    problem = deploy("follow", "gateway", "x.json", "--root", site, code=2)["problems"][0]

    assert problem["code"] == "cli.bad-usage"


class Current(Updater):
    """Finds no update."""

    def __init__(self) -> None:
        self.is_asked = threading.Event()

    def look(self) -> UpdateResult:
        self.is_asked.set()
        return UpdateResult(UpdateState.CURRENT, 1)


@pytest.mark.parametrize("error", UNEXPECTED)
def test_an_unexpected_error_does_not_end_the_following(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    updater = Current()
    fail_once(monkeypatch, Current, "look", error)

    with FollowLoop(updater, 0.01, lambda: None) as following:
        assert updater.is_asked.wait(20)

    assert following.last is not None or "an unexpected error" in following.last_problem
