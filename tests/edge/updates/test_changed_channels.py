"""A deployment follows several channels by turns: it remembers the newest version of each, and
takes the next one."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
from channels import NOW, document, key
from followed_channel import FollowedChannel
from scale import sample

from torvyn._deploy.channel import ArtifactEntry
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_state import MAX_CHANNELS
from torvyn._deploy.publication import publish
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.update import Updater
from torvyn.errors import TorvynError

CHANNELS = ("stable", "testing", "nightly")
STEPS = 25


class World:
    """The channels of a web server, and a gateway that follows one of them."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice = dice
        self.source = FollowedChannel(folder / "channels")
        self.deployment = Deployment(folder / "gateway")
        self.releases = [self.source.entry(f"{number}.0.0") for number in (1, 2, 3)]
        self.published: dict[str, list[tuple[int, bytes, ArtifactEntry]]] = defaultdict(list)
        self.accepted: dict[str, int] = defaultdict(int)
        self.offered = ""
        self.followed = "stable"
        for name in CHANNELS:
            self.publish(name)

    def publish(self, name: str, release: int | None = None) -> None:
        """The numbers of the channels are far apart, and some bar what was before."""
        last = self.published[name][-1][0] if self.published[name] else CHANNELS.index(name) * 1000
        number = self.dice.randrange(len(self.releases)) if release is None else release
        version, entry = last + self.dice.randint(1, 3), self.releases[number]
        bar = self.dice.choice((0, version))
        made = document(version, channel=name, artifacts=(entry,), min_version=bar)
        data = publish(made, [key(name)]).serialize()
        self.published[name].append((version, data, entry))

    def serve(self, name: str, *, is_old: bool = False) -> tuple[int, ArtifactEntry]:
        known = self.published[name]
        version, data, entry = self.dice.choice(known) if is_old else known[-1]
        self.source.file.write_bytes(data)
        return version, entry

    def look(self) -> str:
        follow = Following(
            str(self.source.file), self.followed, (key(self.followed).public.pem.decode(),)
        )
        updater = Updater(
            Deployment(self.deployment.folder),
            DeploymentSettings(follow=follow),
            follow,
            check=lambda record: None,
            torvyn_version="0.1.0",
            clock=lambda: NOW,
        )
        try:
            return str(updater.look().state.value)
        except TorvynError as error:
            return error.code

    def take_newest(self) -> None:
        """An honest server: the newest version is accepted, and runs."""
        version, entry = self.serve(self.followed)
        assert self.look() in ("updated", "current"), (self.followed, version)
        self.accepted[self.followed] = version
        current = self.deployment.state().current
        assert current is not None
        assert self.deployment.record(current).digest == entry.digest

    def take_old(self) -> None:
        """An attacker serves what he has kept."""
        version, _ = self.serve(self.followed, is_old=True)
        result = self.look()
        if version < self.accepted[self.followed]:
            assert result == "edge.channel-rolled-back", (self.followed, version, self.accepted)
        self.accepted[self.followed] = max(version, self.accepted[self.followed])

    def act(self) -> None:
        match self.dice.choice(
            ("publish", "follow", "follow", "newest", "newest", "old", "old", "good", "damage")
        ):
            case "publish":
                self.publish(self.dice.choice(CHANNELS))
            case "follow":
                self.followed = self.dice.choice(CHANNELS)
            case "newest":
                self.take_newest()
            case "old":
                self.take_old()
            case "good":
                self.become_good()
            case "damage":
                if (file := self.deployment.folder / "state.json").exists():
                    file.write_bytes(self.dice.choice((b"", b"{}", b"\0" * 100)))

    def become_good(self) -> None:
        """As a run does after the health period."""
        from torvyn._deploy.deployment_run import RunRecords

        current = self.deployment.state().current
        if current is not None:
            RunRecords(self.deployment).mark_good(self.deployment.record(current))


@pytest.mark.parametrize("seed", range(sample(4, full=200)))
def test_no_channel_is_rolled_back_and_every_channel_goes_on(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, random.Random(seed))

    for _ in range(STEPS):
        world.act()
    for world.followed in CHANNELS:
        world.take_newest()
        world.take_old()


def test_without_a_state_the_generations_say_what_was_seen_of_each_channel(tmp_path: Path) -> None:
    world = World(tmp_path, random.Random(1))
    for release, name in enumerate(CHANNELS):
        world.publish(name, release)
    for world.followed in CHANNELS:
        world.take_newest()
    for name in ("state.json", "state.copy.json"):
        (world.deployment.folder / name).write_text("")

    for world.followed in CHANNELS:
        version = world.accepted[world.followed]
        older = document(version - 1, channel=world.followed, artifacts=(world.releases[0],))
        data = publish(older, [key(world.followed)]).serialize()
        world.source.file.write_bytes(data)
        assert world.look() == "edge.channel-rolled-back"


def test_what_is_known_of_channels_is_bounded_and_never_dropped(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path / "gateway")
    names = [f"channel-{number}" for number in range(MAX_CHANNELS + 1)]
    for name in names[:-1]:
        deployment.change(lambda state, _, name=name: state.accept(name, known(name, 7)))  # type: ignore[misc]

    with pytest.raises(TorvynError) as caught:
        deployment.change(lambda state, _: state.accept(names[-1], known(names[-1], 1)))
    deployment.change(lambda state, _: state.accept(names[0], known(names[0], 8)))

    assert caught.value.code == "edge.too-many-channels"
    state = deployment.state()
    assert [state.accepted(name).get("version") for name in names] == [8, *[7] * 63, None]


def known(name: str, version: int) -> dict[str, object]:
    return {"name": name, "version": version}
