"""The trust policy: which rule decides for a source, and that a broken policy trusts nobody."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from torvyn.artifact.signature.keys import SigningKey
from torvyn.artifact.signature.policy import Rule, TrustPolicy
from torvyn.errors import ArtifactError, TorvynError

HOST = "oci://registry.example.com"


def written(folder: Path, text: str) -> Path:
    path = folder / "trust.toml"
    path.write_text(text)
    return path


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    key = SigningKey.generate()
    key.write(tmp_path / "plant.key")
    return key


def test_a_policy_is_read(tmp_path: Path, key: SigningKey) -> None:
    text = f"""
        default = "warn"
        [[source]]
        prefix = "{HOST}/plant"
        keys = ["plant.key.pub"]
        max_age = "90d"
    """
    policy = TrustPolicy.read(written(tmp_path, text))

    rule = policy.rule_for(f"{HOST}/plant/gateway")
    assert (rule.action, rule.keys, rule.threshold) == ("reject", (key.public,), 1)
    assert rule.max_age == timedelta(90)
    assert policy.rule_for(f"{HOST}/other").action == "warn"


def test_the_longest_prefix_decides() -> None:
    prefixes = (HOST, f"{HOST}/plant", f"{HOST}/plant/gateway")
    policy = TrustPolicy(tuple(Rule(prefix) for prefix in prefixes))

    assert policy.rule_for(f"{HOST}/plant/other").prefix == f"{HOST}/plant"
    assert policy.rule_for(f"{HOST}/plant/gateway").prefix == f"{HOST}/plant/gateway"


@pytest.mark.parametrize(
    "source", [f"{HOST}/plants", f"{HOST}.evil.example/plant", f"{HOST}:5000/plant", "oci:/plant"]
)
def test_a_prefix_matches_whole_names_only(source: str) -> None:
    policy = TrustPolicy((Rule("", "reject"), Rule(f"{HOST}/plant", "allow"), Rule(HOST, "allow")))

    allowed = source.startswith(f"{HOST}/")
    assert policy.rule_for(source).action == ("allow" if allowed else "reject")
    assert policy.rule_for(source).prefix != f"{HOST}/plant"


def test_what_no_rule_names_is_rejected(tmp_path: Path) -> None:
    assert TrustPolicy.read(written(tmp_path, "")).rule_for(f"{HOST}/a") == Rule()
    assert TrustPolicy().rule_for("oci:/dist").action == "reject"


def test_without_a_policy_registries_are_a_warning_and_folders_are_not(tmp_path: Path) -> None:
    policy = TrustPolicy.load({"HOME": str(tmp_path)}, tmp_path / "none")

    assert policy.rule_for(f"{HOST}/a").action == "warn"
    assert policy.rule_for("oci:/srv/dist").action == "allow"


def test_the_policy_of_the_machine_overrules_that_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "torvyn").mkdir()
    written(tmp_path / "torvyn", 'default = "allow"')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    machine = tmp_path / "machine.toml"

    assert TrustPolicy.load(environ, machine).rule_for(HOST).action == "allow"
    machine.write_text('default = "reject"')
    assert TrustPolicy.load(environ, machine).rule_for(HOST).action == "reject"


def test_a_policy_that_cannot_be_read_is_not_skipped(tmp_path: Path) -> None:
    machine = tmp_path / "machine.toml"
    machine.symlink_to(tmp_path / "none")

    with pytest.raises(ArtifactError, match="cannot be read"):
        TrustPolicy.load({}, machine)


@pytest.mark.parametrize(
    "text",
    [
        'default = "rejct"',
        'defualt = "allow"',
        "default = ",
        'source = "all"',
        '[[source]]\nprefix = "registry.example.com"',
        "[[source]]\nkeys = []",
        f'[[source]]\nprefix = "{HOST}"\ntreshold = 2',
        f'[[source]]\nprefix = "{HOST}"\nthreshold = 0',
        f'[[source]]\nprefix = "{HOST}"\nthreshold = true',
        f'[[source]]\nprefix = "{HOST}"\nthreshold = 2\nkeys = ["plant.key.pub"]',
        f'[[source]]\nprefix = "{HOST}"\nkeys = ["plant.key.pub", "plant.key.pub"]',
        f'[[source]]\nprefix = "{HOST}"\nkeys = "plant.key.pub"',
        f'[[source]]\nprefix = "{HOST}"\nmax_age = 90',
        f'[[source]]\nprefix = "{HOST}"\n[[source]]\nprefix = "{HOST}"',
        f'[[source]]\nprefix = "{HOST}"\nkeys = ["none.pub"]',
        f'[[source]]\nprefix = "{HOST}"\nkeys = ["plant.key"]',
    ],
)
def test_a_policy_with_a_mistake_is_refused_as_a_whole(
    tmp_path: Path, key: SigningKey, text: str
) -> None:
    with pytest.raises(TorvynError) as caught:
        TrustPolicy.read(written(tmp_path, text))

    codes = ("artifact.policy-invalid", "artifact.key-missing", "artifact.key-invalid")
    assert caught.value.code in codes
