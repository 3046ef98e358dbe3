"""No attack on a channel is accepted, and what runs goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from attacks import ATTACKS, endless_server, is_accepted, scene


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(name: str, tmp_path: Path) -> None:
    made = scene(tmp_path)

    ATTACKS[name](made)

    assert not is_accepted(made)
    assert made.deployment.start().number == 2


def test_a_server_that_never_ends_is_refused(tmp_path: Path) -> None:
    made = scene(tmp_path)

    with endless_server(made) as source:
        assert not is_accepted(made, source)


def test_an_honest_version_is_accepted_after_attacks(tmp_path: Path) -> None:
    made = scene(tmp_path)
    for name in ("roll-back", "wrong-key", "fast-forward", "fork", "rotation-by-old-key"):
        ATTACKS[name](made)
        assert not is_accepted(made)

    made.channel.publish(3, "3.0.0")

    assert made.channel.updater(made.deployment).look().state == "updated"
