"""A channel in a real registry, with its artifacts beside it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from followed_channel import FollowedChannel
from registry_servers import require
from registry_servers import running as running_registry

from torvyn._artifact.layout import Layout
from torvyn._artifact.publish import PublishOptions, publish
from torvyn._artifact.reference import Reference
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.source import open_source, push_channel
from torvyn._deploy.update import add_artifact
from torvyn.errors import TorvynError


@pytest.fixture(params=["docker-registry", "olareg"])
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    require(request.param)
    with running_registry(request.param, tmp_path) as server:
        yield f"oci://{server.host}/plant/gateway"


@pytest.fixture
def channel(tmp_path: Path) -> FollowedChannel:
    return FollowedChannel(tmp_path / "channel")


def release(channel: FollowedChannel, repository: str, version: int, release: str) -> None:
    """What a release engineer does: publish the artifact, then the channel."""
    entry = channel.publish(version, release)
    layout = Layout(channel.folder)
    target = Reference.parse(f"{repository}:{release}")
    asyncio.run(publish(layout, layout.resolve(entry.digest), target, PublishOptions()))
    push_channel(channel.file.read_bytes(), Reference.parse(f"{repository}:stable"))


def test_a_deployment_follows_a_tag_of_a_registry(
    channel: FollowedChannel, repository: str, tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path / "gateway")
    updater = channel.updater(deployment, f"{repository}:stable")
    for version, name in ((1, "1.0.0"), (2, "2.0.0")):
        release(channel, repository, version, name)
        assert updater.look().state == "updated"

    assert updater.look().state == "current"
    assert 'version = "2.0.0"' in deployment.manifest(2).read_text()


@pytest.mark.skipif(
    socket.gethostbyname(socket.gethostname()) != "127.0.0.1",
    reason="the name of this machine has no address of its own",
)
def test_a_registry_without_tls_on_another_machine_needs_a_flag(
    channel: FollowedChannel, repository: str
) -> None:
    release(channel, repository, 1, "1.0.0")
    source = f"{repository}:stable".replace("127.0.0.1", socket.gethostname())

    with pytest.raises(TorvynError, match="does not speak TLS"):
        open_source(source).publication()

    assert open_source(source, is_insecure=True).publication() == channel.file.read_bytes()


def test_a_tag_that_is_no_channel_is_refused(
    channel: FollowedChannel, repository: str, tmp_path: Path
) -> None:
    release(channel, repository, 1, "1.0.0")

    with pytest.raises(TorvynError, match="is not a channel"):
        channel.updater(Deployment(tmp_path / "gateway"), f"{repository}:1.0.0").look()


def test_an_artifact_of_a_registry_is_added_by_hand(
    channel: FollowedChannel, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    release(channel, repository, 1, "1.0.0")

    record, warnings = add_artifact(Deployment(tmp_path / "gateway"), f"{repository}:1.0.0")

    assert record.title == "gateway 1.0.0"
    assert [warning.severity for warning in warnings] == ["warning"]


def test_a_registry_that_is_away_changes_nothing(channel: FollowedChannel, tmp_path: Path) -> None:
    updater = channel.updater(Deployment(tmp_path / "gateway"), "oci://127.0.0.1:9/gateway:stable")

    with pytest.raises(TorvynError) as caught:
        updater.look()

    assert caught.value.code == "edge.unreachable"
