"""The trust policy: which rule decides for a source, and that a broken policy trusts nobody."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn._artifact.fetch import source_of
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.reference import LayoutReference, parse_reference
from torvyn._artifact.trust import LIMIT_BYTES, Rule, TrustPolicy
from torvyn.errors import ArtifactError, TorvynError

HOST = "oci://registry.example.com"
KEYS = "keys = ['plant.key.pub']"


def source(prefix: str, *lines: str) -> str:
    return "\n".join(["[[source]]", f'prefix = "{prefix}"', *lines])


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


MISTAKES: dict[str, tuple[str, str, str]] = {
    "misspelled action": ('default = "rejct"', "1:11", "did you mean `reject`?"),
    "misspelled key": ('defualt = "allow"', "1:1", "did you mean `default`?"),
    "no TOML": ("default = ", "1:11", ""),
    "source that is no table": ('source = "all"', "1:1", "[[source]]"),
    "no prefix": ('[[source]]\naction = "warn"', "1:1", "oci://registry.example.com"),
    "prefix without a scheme": (source("registry.example.com"), "2:10", "begin with oci://"),
    "prefix for everything": (source("oci:"), "2:10", "begin with oci://"),
    "folder that depends on where you are": (source("oci:dist"), "2:10", "from the root"),
    "name in capitals": (source(f"{HOST}/Plant"), "2:10", "without a tag"),
    "host in capitals": (source("oci://Registry.example.com"), "2:10", "oci://registry.example"),
    "tag": (source(f"{HOST}/plant:1.2"), "2:10", "without a tag"),
    "digest": (source(f"{HOST}/plant@sha256:{'a' * 64}"), "2:10", "without a tag"),
    "wildcard": (source(f"{HOST}/*"), "2:10", "without a tag"),
    "user": (source("oci://user@registry.example.com"), "2:10", "oci://host"),
    "host without a name": (source("oci:///plant"), "2:10", "oci://host"),
    "empty part": (source(f"{HOST}//plant"), "2:10", "oci://host/name"),
    "no text": ("[[source]]\nprefix = 7", "2:10", "begin with oci://"),
    "unknown key of a rule": (source(HOST, "treshold = 2"), "3:1", "`threshold`"),
    "threshold of zero": (source(HOST, KEYS, "threshold = 0"), "4:13", ""),
    "threshold that is no number": (source(HOST, KEYS, "threshold = true"), "4:13", ""),
    "threshold that nothing meets": (source(HOST, KEYS, "threshold = 2"), "4:13", "lower it"),
    "threshold without keys": (source(HOST, "threshold = 2"), "3:1", "name `keys`"),
    "age without keys": (source(HOST, 'max_age = "90d"'), "3:1", "name `keys`"),
    "age without keys by default": ('max_age = "90d"', "1:1", "name `keys`"),
    "age without a unit": (source(HOST, KEYS, "max_age = 90"), "4:11", "90d"),
    "age that nothing meets": (source(HOST, KEYS, 'max_age = "0d"'), "4:11", "1d"),
    "no keys": (source(HOST, "keys = []"), "3:1", "leave `keys` out"),
    "keys that are no list": (source(HOST, 'keys = "plant.key.pub"'), "3:1", "beside this one"),
    "one key twice": (source(HOST, f"{KEYS[:-1]}, 'plant.key.pub']"), "3:26", "once"),
    "missing key": (source(HOST, 'keys = ["none.pub"]'), "3:9", "--generate-key"),
    "name that no file can have": (source(HOST, r'keys = ["\u0000"]'), "3:9", ""),
    "private key": (source(HOST, 'keys = ["plant.key"]'), "3:9", "plant.key.pub"),
    "file without keys": (source(HOST, 'keys = ["empty.pub"]'), "3:9", ""),
    "file with two keys": (source(HOST, 'keys = ["both.pub"]'), "3:9", "of its own"),
    "two rules for one source": (f"{source(HOST)}\n{source(HOST)}", "4:1", "as one"),
    "two spellings": (f"{source(HOST)}\n{source(f'{HOST}/')}", "4:1", "as one"),
    "two spellings of a folder": (f"{source('oci:/a')}\n{source('oci:/b/../a')}", "4:1", "as one"),
    "default for nothing": (f"default = 'allow'\n{source('oci://')}\n{source('oci:/')}", "1:1", ""),
    "folder that cannot be": (source(r"oci:/\u0000"), "2:10", ""),
    "nested too deeply": (f"keys = {'[' * 500}{']' * 500}", "1:", ""),
}
"""A policy, the place of its mistake, and a part of the hint."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_policy_with_a_mistake_is_refused_as_a_whole_with_its_place(
    tmp_path: Path, key: SigningKey, name: str
) -> None:
    text, place, hint = MISTAKES[name]
    pem = (tmp_path / "plant.key.pub").read_text()
    (tmp_path / "empty.pub").write_text("")
    (tmp_path / "both.pub").write_text(pem + SigningKey.generate().public.pem.decode())

    with pytest.raises(TorvynError) as caught:
        TrustPolicy.read(written(tmp_path, text))

    codes = ("artifact.policy-invalid", "artifact.key-missing", "artifact.key-invalid")
    assert caught.value.code in codes
    assert str(caught.value.location).startswith(f"{tmp_path}/trust.toml:{place}")
    assert hint in (caught.value.hint or "")


def test_a_policy_that_is_too_long_is_refused_and_not_cut(tmp_path: Path) -> None:
    text = "#" * LIMIT_BYTES + f"\n{source(HOST)}"

    with pytest.raises(ArtifactError, match="has more than"):
        TrustPolicy.read(written(tmp_path, text))


def test_a_rule_for_all_folders_is_none_for_registries(tmp_path: Path) -> None:
    text = source("oci:/", "action = 'allow'")
    policy = TrustPolicy.read(written(tmp_path, text))

    assert policy.rule_for("oci:/srv/dist").action == "allow"
    assert policy.rule_for(f"{HOST}/plant").action == "reject"


def test_a_folder_is_found_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real/dist").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    policy = TrustPolicy.read(written(tmp_path, source(f"oci:{tmp_path}/link", "action = 'warn'")))

    source_ = source_of(LayoutReference(tmp_path / "link/dist"))

    assert policy.rule_for(source_).action == "warn"


PARTS = ("a", "b", "A", "a-b", "..", "", "*", "a:1", "a.example", "[::1]", "h:5000", "x" * 200)
SOURCES = st.builds(
    lambda scheme, parts, slash: scheme + "/".join(parts) + slash,
    st.sampled_from(["oci://", "oci:/", "oci:", ""]),
    st.lists(st.sampled_from(PARTS), max_size=3),
    st.sampled_from(["", "/"]),
)


@settings(max_examples=sample(200, full=5000))
@given(st.lists(SOURCES, max_size=4), st.booleans())
def test_every_rule_of_a_policy_decides_for_some_reference(
    prefixes: list[str], has_default: bool
) -> None:
    default = "default = 'warn'\n" if has_default else ""
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), default + "\n".join(map(source, prefixes)))
        try:
            policy = TrustPolicy.read(path)
        except ArtifactError:
            return

    for rule in policy.rules if has_default else policy.rules[1:]:
        assert any(policy.rule_for(each) is rule for each in below(rule.prefix)), rule


def below(prefix: str) -> list[str]:
    """What may begin with the prefix, as a source, and with no longer one."""
    places = [prefix] if prefix else ["oci://", "oci:/"]
    ends = ("fresh", "/fresh", "host.example/fresh", "")
    texts = [place.removesuffix("/") + end for place in places for end in ends]
    texts += [place + end for place in places for end in ends]
    sources = []
    for text in texts:
        with suppress(TorvynError):
            sources.append(source_of(parse_reference(text)))
    return sources
