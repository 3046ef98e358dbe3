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
from torvyn._artifact.keys import PublicKey, SigningKey
from torvyn._cli import app
from torvyn._cli.commands.deploy import follow as follow_command
from torvyn._deploy.collector import stored_reports
from torvyn._deploy.update import FollowLoop, Updater, UpdateResult, UpdateState

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


def follow(deploy: Deploy, site: Path, *words: object, code: int = 0) -> Any:
    source = ("follow", "gateway", site / "channel.json")
    return deploy(*source, *words, "--root", site.parent / "root", code=code)


@pytest.fixture
def followed(deploy: Deploy, site: Path) -> Path:
    """The keys of a deployment that has accepted version 1, signed by `release`."""
    release(deploy, site, "1.0.0")
    follow(deploy, site, "--key", site.parent / "release.pub")
    deploy("update", "gateway", "--root", site.parent / "root")
    return site.parent


def trusted_ids(folder: Path) -> list[str]:
    keys = state_of(folder / "root/gateway")["channel"]["keys"]  # type: ignore[index]
    return sorted(PublicKey.parse(pem.encode(), "key").id for pem in keys)


def key_id(path: Path) -> str:
    return PublicKey.read(path).id


@pytest.mark.parametrize(
    "words",
    [
        ["--key", "next.pub"],
        ["--key", "release.pub", "--key", "next.pub"],
        ["--key", "release.pub", "--key", "next.pub", "--threshold", "2"],
    ],
    ids=["other", "one more", "threshold"],
)
def test_other_keys_of_a_known_channel_are_refused_until_they_replace_the_trusted_ones(
    deploy: Deploy, site: Path, followed: Path, words: list[str]
) -> None:
    named = [followed / word if word.endswith(".pub") else word for word in words]
    problem = follow(deploy, site, *named, code=2)["problems"][0]
    assert problem["code"] == "edge.channel-keys-differ"
    assert key_id(followed / "release.pub")[:12] in problem["message"]
    assert trusted_ids(followed) == [key_id(followed / "release.pub")]

    shown = follow(deploy, site, *named, "--replace-keys")

    expected = sorted(key_id(path) for path in named if isinstance(path, Path))
    assert trusted_ids(followed) == shown["trusted_keys"] == expected


def test_a_replaced_key_is_worthless_and_versions_still_do_not_fall(
    deploy: Deploy, site: Path, followed: Path
) -> None:
    first = (site / "channel.json").read_bytes()
    follow(deploy, site, "--key", followed / "next.pub", "--replace-keys")
    update = ("update", "gateway", "--root", followed / "root")

    release(deploy, site, "2.0.0", key="release")
    assert deploy(*update, code=2)["problems"][0]["code"] == "edge.channel-untrusted"
    release(deploy, site, "3.0.0", key="next")
    assert deploy(*update)["version"] == 3
    follow(deploy, site, "--key", followed / "release.pub", "--replace-keys")
    (site / "channel.json").write_bytes(first)
    assert deploy(*update, code=2)["problems"][0]["code"] == "edge.channel-rolled-back"


def test_the_trusted_keys_stay_if_none_are_named(
    deploy: Deploy, site: Path, followed: Path
) -> None:
    shown = follow(deploy, site, "--interval", "1h")

    assert shown["trusted_keys"] == trusted_ids(followed) == [key_id(followed / "release.pub")]
    assert shown["follow"]["interval_s"] == 3600


def test_a_deployment_that_comes_back_to_a_channel_knows_its_versions_and_keys(
    deploy: Deploy, site: Path, followed: Path
) -> None:
    first, update = (site / "channel.json").read_bytes(), ("update", "gateway")
    release(deploy, site, "2.0.0")
    deploy(*update, "--root", followed / "root")
    other = ("--artifact", f"gateway=oci:{site}:1.0.0", "--key", followed / "next")
    deploy("channel", "sign", site / "channel.json.new", "--channel", "testing", *other)
    (site / "channel.json.new").replace(site / "channel.json")
    follow(deploy, site, "--channel", "testing", "--key", followed / "next.pub")
    deploy(*update, "--root", followed / "root")

    problem = follow(deploy, site, "--key", followed / "next.pub", code=2)["problems"][0]
    follow(deploy, site)
    (site / "channel.json").write_bytes(first)
    older = deploy(*update, "--root", followed / "root", code=2)["problems"][0]

    assert problem["code"] == "edge.channel-keys-differ"
    assert older["code"] == "edge.channel-rolled-back"


VALUES = {
    "source": ["other.json"],
    "keys": ["--key", "next.pub"],
    "threshold": ["--threshold", "1"],
    "replace_keys": ["--replace-keys"],
    "channel": ["--channel", "testing"],
    "artifact": ["--artifact", "other"],
    "interval": ["--interval", "1h"],
    "heartbeat": ["--heartbeat", "http://127.0.0.1:9/reports"],
    "device": ["--device", "gw-7"],
    "insecure": ["--insecure"],
    "stop": ["--stop"],
}
"""Something to write on the command line for each parameter."""
OUTPUT = {"format", "color", "quiet", "verbose"}


def test_every_parameter_of_follow_does_something_or_is_refused(
    deploy: Deploy, site: Path, followed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(followed)
    assert {each.name for each in follow_command.params} == {*VALUES, *OUTPUT, "name", "root"}
    folder, base = followed / "root/gateway", (site / "channel.json", "--root", followed / "root")
    before = [(folder / name).read_bytes() for name in ("deployment.json", "state.json")]

    for name, words in VALUES.items():
        source = base[1:] if name in ("source", "stop") else base
        done = app.run(["deploy", "follow", "gateway", *map(str, source), *words])
        after = [(folder / name).read_bytes() for name in ("deployment.json", "state.json")]
        assert done == 2 or (done == 0 and after != before), name
        for path, data in zip(("deployment.json", "state.json"), before, strict=True):
            (folder / path).write_bytes(data)


@pytest.mark.parametrize("name", [name for name in VALUES if name != "stop"])
def test_nothing_can_be_set_by_the_command_that_stops(
    deploy: Deploy, site: Path, followed: Path, name: str
) -> None:
    words = ("follow", "gateway", "--stop", *VALUES[name], "--root", followed / "root")

    problem = deploy(*words, code=2)["problems"][0]

    assert (problem["code"], "means nothing beside `--stop`" in problem["message"]) == (
        "cli.bad-usage",
        True,
    )


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
