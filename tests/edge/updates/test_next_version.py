"""`torvyn deploy channel`: what devices would refuse or lose is not signed by mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from versioned_gateway import pack

from torvyn._artifact.keys import SigningKey
from torvyn._cli import app
from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
from torvyn._deploy.publication import KeySet, check_next, older_project, publish
from torvyn._deploy.trust import ChannelTrust, accept
from torvyn.errors import TorvynError

Channel = Callable[..., tuple[int, dict[str, Any]]]
NAMES = ("gateway", "meter", "camera")


@pytest.fixture
def channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Channel:
    """Runs `torvyn deploy channel` beside a layout and two keys; its exit code, and what it says
    on standard error."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        SigningKey.generate(name=name).write(tmp_path / name)
    for version in ("1.9.0", "1.10.0"):
        pack(tmp_path / "site", version, tmp_path / "out")

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        code = app.run(["deploy", "channel", *words, "--format", "json"])
        said = capfd.readouterr().err
        return code, json.loads(said)["problems"][0] if said else {}

    return call


def sign(*words: str, key: str = "a", version: str = "1.10.0") -> list[str]:
    artifact = f"gateway=oci:site:{version}"
    return ["sign", "channel.json", "--artifact", artifact, "--key", key, *words]


METER = ("--artifact", "meter=oci:site:1.9.0")


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_version_that_is_not_higher_is_signed_only_if_you_say_so(
    channel: Channel, version: str
) -> None:
    for _ in range(2):
        channel(*sign())
    before = Path("channel.json").read_bytes()

    code, problem = channel(*sign("--version", version))
    assert (code, problem["code"]) == (2, "edge.channel-version-falls")
    assert Path("channel.json").read_bytes() == before

    code, problem = channel(*sign("--version", version, "--allow-lower-version"))
    assert (code, problem["severity"]) == (0, "warning")


def test_an_artifact_ends_only_if_you_name_it(channel: Channel) -> None:
    channel(*sign(*METER))

    code, problem = channel(*sign())
    assert (code, problem["code"]) == (2, "edge.channel-artifact-dropped")
    assert "--drop meter" in problem["hint"]

    assert channel(*sign("--drop", "meter")) == (0, {})


def test_an_older_project_is_signed_with_a_warning(channel: Channel) -> None:
    channel(*sign(version="1.10.0"))

    code, problem = channel(*sign(version="1.9.0"))

    assert (code, problem["code"]) == (0, "edge.channel-project-falls")
    assert problem["message"] == "`gateway` is 1.9.0 now, and was 1.10.0 in the version before"
    assert channel(*sign(version="1.10.0")) == (0, {})


def test_a_key_that_has_never_signed_is_a_warning(channel: Channel) -> None:
    channel(*sign())

    code, problem = channel(*sign(key="b"))

    assert (code, problem["code"]) == (0, "edge.channel-new-signers")


def test_the_old_key_after_a_change_of_keys_is_a_warning(channel: Channel) -> None:
    channel(*sign())
    channel("rotate", "channel.json", "--key", "a", "--new-key", "b")

    assert channel(*sign(key="b")) == (0, {})
    assert channel(*sign(key="a"))[1]["code"] == "edge.channel-new-signers"


REFUSED: dict[str, tuple[list[str], str]] = {
    "another channel in the file": (sign("--channel", "testing"), "edge.channel-other"),
    "a lower bar": (sign("--min-version", "1"), "edge.channel-bar-falls"),
    "a salt for all devices": (sign("--salt", "x"), "cli.bad-usage"),
    "a salt for no device": (sign("--salt", "x", "--rollout", "0"), "cli.bad-usage"),
    "one key twice": (sign("--key", "a"), "cli.bad-usage"),
    "one name twice": (sign("--artifact", "gateway=oci:site:1.9.0"), "cli.bad-usage"),
    "an end of what goes on": (sign("--drop", "gateway"), "cli.bad-usage"),
    "an end of what was not there": (sign("--drop", "camera"), "cli.bad-usage"),
    "a lower version that is none": (sign("--allow-lower-version"), "cli.bad-usage"),
    "a second signature by one key": (
        ["countersign", "channel.json", "--key", "a"],
        "cli.bad-usage",
    ),
    "new keys that are the old ones": (
        ["rotate", "channel.json", "--key", "a", "--new-key", "a"],
        "edge.channel-keys-same",
    ),
    "one new key twice": (
        ["rotate", "channel.json", "--key", "a", "--new-key", "b", "--new-key", "b"],
        "cli.bad-usage",
    ),
    "a change by a stranger": (
        ["rotate", "channel.json", "--key", "b", "--new-key", "a"],
        "edge.channel-untrusted",
    ),
    "a tag that is missing": (["push", "channel.json", "oci://127.0.0.1:9/a"], "cli.bad-value"),
    "a digest in place of a tag": (
        ["push", "channel.json", f"oci://127.0.0.1:9/a@sha256:{'a' * 64}"],
        "cli.bad-value",
    ),
    "more signatures than keys": (
        ["verify", "channel.json", "--key", "a.pub", "--threshold", "2"],
        "cli.bad-value",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_nothing_or_harm_is_refused_and_nothing_is_written(
    channel: Channel, name: str
) -> None:
    assert channel(*sign("--version", "3", "--min-version", "3"))[0] == 0
    before = Path("channel.json").read_bytes()
    words, expected = REFUSED[name]

    code, problem = channel(*words)

    assert (code, problem["code"]) == (2, expected)
    assert Path("channel.json").read_bytes() == before


KEYS = [SigningKey.generate(name=name) for name in ("a", "b")]
DOCUMENTS = st.builds(
    lambda version, bar, names: ChannelDocument(
        "stable",
        version,
        0,
        tuple(ArtifactEntry(name, "sha256:" + "a" * 64, 1) for name in names),  # type: ignore[arg-type]
        min_version=min(bar, version),
    ),
    st.integers(1, 5),
    st.integers(0, 5),
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)


@given(DOCUMENTS, DOCUMENTS, st.sampled_from(KEYS))
def test_what_is_signed_without_a_word_is_taken_by_devices_and_they_lose_nothing(
    first: ChannelDocument, second: ChannelDocument, signer: SigningKey
) -> None:
    before = publish(first, KEYS[:1])
    _, trust = accept(
        before.serialize(), ChannelTrust("stable", KeySet((KEYS[0].public,))), clock_s=0
    )
    try:
        warnings = check_next(before, second, [signer.public])
    except TorvynError:
        warnings = None
    if warnings == ():
        found, after = accept(publish(second, [signer], before).serialize(), trust, clock_s=0)
        assert (after.version, after.min_version) == (second.version, second.min_version)
        assert {each.name for each in first.artifacts} <= {each.name for each in found.artifacts}


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4), st.data())
def test_versions_of_projects_are_compared_by_their_numbers(
    numbers: list[int], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(numbers) - 1))
    higher = [n + (at == place) for at, n in enumerate(numbers)]
    low, high = (".".join(map(str, each)) for each in (numbers, higher))

    assert [each.code for each in older_project("a", low, high)] == ["edge.channel-project-falls"]
    assert list(older_project("a", high, low)) == list(older_project("a", low, low)) == []
    assert list(older_project("a", "", high)) == []
