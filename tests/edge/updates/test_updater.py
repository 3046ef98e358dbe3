"""A deployment follows a channel: from a stick, from a web server, cut and killed anywhere."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from channel_server import ChannelServer, channel_server
from channels import key
from deployments import killed_at
from followed_channel import FollowedChannel
from scale import sample

from dripping_server import dripping
from torvyn._deploy.channel import Requirement, Rollout
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.source import FetchLimits, open_source
from torvyn.errors import TorvynError

HASTY = FetchLimits(silence_s=0.2, min_bytes_per_s=1e9, total_s=1.0)


@pytest.fixture
def channel(tmp_path: Path) -> FollowedChannel:
    return FollowedChannel(tmp_path / "channel")


@pytest.fixture
def deployment(tmp_path: Path, channel: FollowedChannel) -> Deployment:
    """Generation 1 is version 1 of the channel, and good."""
    made = Deployment(tmp_path / "gateway")
    channel.publish(1, "1.0.0")
    channel.updater(made).look()
    made.change(lambda state, records: state.mark_good(1))
    return made


@pytest.fixture
def server(channel: FollowedChannel) -> Iterator[ChannelServer]:
    with channel_server(channel.folder) as made:
        yield made


def url(server: ChannelServer) -> str:
    return f"{server.url}/channel.json"


def refused(action: Callable[[], Any]) -> str:
    with pytest.raises(TorvynError) as caught:
        action()
    return caught.value.code


def test_a_new_version_on_a_stick_becomes_current(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    entry = channel.publish(2, "2.0.0")

    result = channel.updater(deployment).look()

    assert (result.state, result.version, result.generation) == ("updated", 2, 2)
    assert deployment.record(2).digest == entry.digest
    assert 'version = "2.0.0"' in deployment.manifest(2).read_text()
    assert deployment.state().trying == 2
    assert deployment.record(2).is_trusted, "its keys have signed the digest"


def test_a_second_look_changes_nothing(channel: FollowedChannel, deployment: Deployment) -> None:
    before = deployment.state()

    assert channel.updater(deployment).look().state == "current"
    assert deployment.state() == before


def test_only_files_that_have_changed_are_fetched(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    channel.publish(2, "2.0.0")
    fetched: list[int] = []

    channel.updater(deployment, url(server)).look(fetched.append)

    # The component is the same in both versions; the manifest names another version.
    assert fetched == [deployment.manifest(2).stat().st_size]


def test_an_update_that_is_cut_at_any_byte_is_continued(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    channel.publish(2, "2.0.0")
    updater, dice = channel.updater(deployment, url(server)), random.Random(1)

    for _ in itertools.count():
        server.cut_after(channel.file.stat().st_size + dice.randrange(2000))
        assert deployment.state().current == 1
        try:
            updater.look()
        except TorvynError as error:
            assert error.code == "edge.unreachable"  # noqa: PT017
        else:
            break

    assert deployment.state().current == 2


def test_what_a_cut_download_has_left_goes_when_another_version_is_fetched(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    updater, sizes = channel.updater(deployment, url(server)), []
    for version in range(2, 6):
        extra = f"# {version}{'x' * 50_000}"
        channel.offer(version, artifacts=(channel.entry(f"{version}.0.0", extra=extra),))
        server.cut_after(45_000)
        assert refused(updater.look) == "edge.unreachable"
        left = (deployment.folder / "downloads").rglob("*")
        sizes.append(sum(path.stat().st_size for path in left if path.is_file()))

    assert max(sizes) < 2 * min(sizes)
    server.cut_after(None)
    assert updater.look().state == "updated"
    assert not (deployment.folder / "downloads").exists()


def test_a_server_that_cannot_resume_sends_everything_again(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    entry = channel.publish(2, "2.0.0")
    server.resumes = False
    parts = deployment.folder / "downloads" / "parts"
    parts.mkdir(parents=True)
    (parts / entry.digest.removeprefix("sha256:")).write_bytes(b"half")

    assert channel.updater(deployment, url(server)).look().state == "updated"


def test_an_update_that_is_killed_at_any_step_is_continued(
    channel: FollowedChannel, tmp_path: Path
) -> None:
    for step in itertools.count(1, sample(5, full=1)):
        channel.publish(1, "1.0.0")
        deployment = Deployment(tmp_path / f"at-{step}")
        channel.updater(deployment).look()
        deployment.change(lambda state, records: state.mark_good(1))
        channel.publish(2, "2.0.0")
        was_killed = killed_at(step, lambda d: channel.updater(d).look(), deployment.folder)
        assert Deployment(deployment.folder).start().number in (1, 2)
        assert channel.updater(Deployment(deployment.folder)).look().state in ("updated", "current")
        assert deployment.state().current == 2
        if not was_killed:
            break


def test_a_project_that_fails_its_check_is_not_tried_again_until_the_channel_changes(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    channel.publish(2, "2.0.0")
    updater = channel.updater(deployment, check=lambda record: "it needs a camera")

    assert refused(updater.look) == "edge.check-failed"
    assert channel.updater(deployment).look().state == "failed-before"
    assert deployment.state().current == 1
    channel.publish(3, "2.0.0")
    assert channel.updater(deployment).look().state == "updated"


def test_a_device_outside_the_rollout_waits(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    channel.publish(2, "2.0.0", rollout=Rollout(0))
    assert channel.updater(deployment).look().state == "excluded"

    channel.publish(3, "2.0.0", rollout=Rollout(100))

    assert channel.updater(deployment).look().state == "updated"


def test_an_artifact_for_a_newer_torvyn_waits(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    from dataclasses import replace

    entry = replace(channel.entry("2.0.0"), torvyn=Requirement.parse(">=9"))
    channel.offer(2, artifacts=(entry,))

    result = channel.updater(deployment).look()

    assert (result.state, result.reason) == ("unsupported", "it needs torvyn >=9; this is 0.1.0")


def test_an_old_artifact_may_come_back_as_a_new_version(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    channel.publish(2, "2.0.0")
    channel.updater(deployment).look()
    channel.publish(3, "1.0.0", min_version=3)

    result = channel.updater(deployment).look()

    assert (result.state, result.generation) == ("updated", 3)
    assert deployment.record(3).version == 3


def test_a_damaged_state_still_keeps_older_documents_out(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    channel.publish(2, "2.0.0")
    channel.updater(deployment).look()
    (deployment.folder / "state.json").write_text("")
    channel.publish(1, "1.0.0")

    assert refused(channel.updater(deployment).look) == "edge.channel-rolled-back"


# Attacks


def test_a_file_that_was_tampered_with_is_not_added(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    channel.publish(2, "2.0.0")
    for blob in (channel.folder / "blobs/sha256").iterdir():
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes().replace(b"2.0.0", b"6.6.6"))

    assert refused(channel.updater(deployment).look) == "artifact.digest-mismatch"
    assert list(deployment.records()) == [1]


def test_an_artifact_larger_than_the_channel_says_is_refused(
    channel: FollowedChannel, deployment: Deployment
) -> None:
    from dataclasses import replace

    entry = channel.entry("2.0.0")
    channel.offer(2, artifacts=(replace(entry, size=entry.size - 1),))

    assert refused(channel.updater(deployment).look) == "artifact.too-large"


def test_an_endless_answer_is_cut(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    server.body = lambda data: itertools.repeat(b" " * 65536)

    code = refused(channel.updater(deployment, url(server)).look)

    assert code in ("artifact.too-large", "edge.channel-invalid")
    assert server.sent < 16 << 20


def test_a_slow_answer_is_given_up(
    channel: FollowedChannel, deployment: Deployment, server: ChannelServer
) -> None:
    import time

    channel.publish(2, "2.0.0")

    def drip(data: bytes) -> Iterator[bytes]:
        for position in range(len(data)):
            time.sleep(0.01)
            yield data[position : position + 1]

    server.body = drip

    assert refused(channel.updater(deployment, url(server), limits=HASTY).look) == "edge.too-slow"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DRIPS = {
    "head": HEAD + b"X-Padding: " + b"a" * 8000,
    "body": HEAD + b"Content-Length: 8000\r\n\r\n" + b" " * 8000,
    "chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 8000,
}


@pytest.mark.parametrize("where", DRIPS)
def test_a_server_that_sends_a_byte_from_time_to_time_is_given_up(where: str) -> None:
    with dripping(DRIPS[where], at_once=len(HEAD)) as host:
        source = open_source(f"http://{host}/channel.json", HASTY)

        assert refused(source.publication) in ("edge.unreachable", "edge.too-slow")


@pytest.mark.parametrize(
    "address", ["http://[", "http://a..b/", "file:///etc/passwd", "http://a:x/"]
)
@pytest.mark.parametrize("is_redirect", [True, False])
def test_an_address_of_a_channel_that_is_none_is_refused(
    tmp_path: Path, address: str, is_redirect: bool
) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: %s\r\n\r\n" % address.encode()
    with dripping(answer, at_once=len(answer)) as host:
        source = open_source(f"http://{host}/channel.json" if is_redirect else address, HASTY)

        assert refused(source.publication) == "edge.unreachable"


@pytest.mark.parametrize("blocks", [0, 1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("is_served", [True, False])
def test_an_update_on_a_full_disk_is_no_bug_and_can_be_made_later(
    channel: FollowedChannel, tmp_path: Path, is_served: bool, blocks: int
) -> None:
    """As `ulimit -f`: no file may have more than so many blocks of 512 bytes."""
    channel.offer(2, artifacts=(channel.entry("2.0.0", extra=f"# {'x' * 20_000}"),))
    with channel_server(channel.folder) as server:
        source = f"{server.url}/channel.json" if is_served else str(channel.file)
        deployment = Deployment(tmp_path / "fresh")
        deployment.create()
        pems = [key("a").public.pem.decode()]
        folder = str(deployment.folder)

        done = run_limited(blocks, folder, source, *pems)

        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() in ("updated", "edge.disk-failed", "artifact.unwritable")
        result = channel.updater(deployment, source).look()
        assert result.state in ("updated", "current")


def run_limited(blocks: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", sys.executable, "-c", LOOK]
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False)


LOOK = """
import sys
from pathlib import Path
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.update import Updater
from torvyn.errors import TorvynError

folder, source, pem = sys.argv[1:]
follow = Following(source, "stable", (pem,))
updater = Updater(
    Deployment(Path(folder)), DeploymentSettings(), follow,
    check=lambda record: None, torvyn_version="0.1.0", clock=lambda: 2_000_000_000.0,
)
try:
    print(updater.look().state.value)
except TorvynError as error:
    print(error.code)
"""


@pytest.mark.promise("edge.remote-updates")
@pytest.mark.parametrize("source", ["missing.json", "http://127.0.0.1:9/channel.json"])
def test_a_source_that_is_away_changes_nothing(
    channel: FollowedChannel, deployment: Deployment, source: str
) -> None:
    before = deployment.state()

    assert refused(channel.updater(deployment, source).look) == "edge.unreachable"
    assert deployment.state() == before
