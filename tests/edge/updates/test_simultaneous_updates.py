"""Several processes update one deployment at once: they make one generation, whoever is killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from channels import NOW, key, trust
from followed_channel import FollowedChannel
from scale import sample
from simultaneous import UPDATERS, followed, has_one_update, last_steps, updates

from torvyn._deploy.deployment import Deployment
from torvyn._deploy.trust import ChannelTrust
from torvyn.errors import TorvynError


@pytest.mark.parametrize("seed", range(sample(3, full=60)))
def test_updates_at_the_same_time_make_one_generation(tmp_path: Path, seed: int) -> None:
    channel = FollowedChannel(tmp_path / "channel")
    deployment = followed(channel, tmp_path / "gateway")

    ends = updates(channel, deployment.folder, seed, [None] * UPDATERS)

    assert Counter(ends) == {"updated": 1, "current": UPDATERS - 1}
    assert list(deployment.records()) == [1, 2]
    assert deployment.state().current == 2


@pytest.mark.parametrize("seed", range(sample(5, full=100)))
def test_updates_that_are_killed_beside_others_leave_one_generation(
    tmp_path: Path, seed: int
) -> None:
    channel, dice = FollowedChannel(tmp_path / "channel"), random.Random(seed)
    deployment = followed(channel, tmp_path / "gateway")

    ends = updates(channel, deployment.folder, seed, last_steps(dice))

    assert set(ends) <= {"updated", "current", None}
    assert has_one_update(channel, deployment)


def looked_while(
    channel: FollowedChannel, deployment: Deployment, accepted: Mapping[str, Any]
) -> TorvynError:
    """How an update is refused that fetches its document before something else is accepted."""

    def clock() -> float:
        Deployment(deployment.folder).change(
            lambda state, records: state.accept("stable", accepted)
        )
        return NOW

    with pytest.raises(TorvynError) as caught:
        channel.updater(deployment, clock=clock).look()
    return caught.value


def test_a_document_that_was_fetched_before_a_newer_one_does_not_undo_it(tmp_path: Path) -> None:
    channel = FollowedChannel(tmp_path / "channel")
    deployment = followed(channel, tmp_path / "gateway")
    newer = {**deployment.state().channel, "version": 3, "digest": "sha256:" + "3" * 64}

    error = looked_while(channel, deployment, newer)

    assert error.code == "edge.channel-rolled-back"
    assert deployment.state().seen_version == 3


def test_keys_that_a_person_replaces_during_an_update_stay(tmp_path: Path) -> None:
    channel = FollowedChannel(tmp_path / "channel")
    deployment = followed(channel, tmp_path / "gateway")

    error = looked_while(channel, deployment, trust("b", version=1).to_dict())

    assert error.code == "edge.channel-untrusted"
    keys = ChannelTrust.from_dict(deployment.state().channel).keys
    assert keys.pems == [key("b").public.pem.decode()]
