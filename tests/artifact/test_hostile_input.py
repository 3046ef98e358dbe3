"""What comes from outside is read or refused: it never ends a command as a bug of torvyn."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from projects import make_project
from scale import sample
from wheel_files import make_wheel

from torvyn._artifact import signature
from torvyn._artifact.cache import Cache
from torvyn._artifact.keys import SigningKey
from torvyn._artifact.lock import Lock, LockedArtifact, LockedComponent, LockedFile
from torvyn._artifact.oci import PROJECT, TITLE, Descriptor, ImageIndex, ImageManifest, canonical
from torvyn._artifact.reference import Reference
from torvyn._artifact.registry_login import Challenge, _token_in, find_login
from torvyn._artifact.registry_responses import checked_address, failure
from torvyn._artifact.signature import Statement
from torvyn._artifact.trust import Rule, TrustPolicy, verify
from torvyn._artifact.wheels import Machine, WheelName, install
from torvyn._cli import app
from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_process import generation_command
from torvyn._deploy.generation_state import DeploymentState, Failure, GenerationRecord
from torvyn._deploy.publication import KeyRotation, KeySet, Publication, publish
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.source import open_source
from torvyn._deploy.trust import ChannelTrust
from torvyn._deploy.update import accepted_trust
from torvyn._io.safe_text import escape_controls
from torvyn.errors import TorvynError

KEY = SigningKey.generate()
DIGEST = "sha256:" + "a" * 64
BLOB = Descriptor.of("text/plain", b"x", {TITLE: "x"})
MANIFEST = ImageManifest(PROJECT, (BLOB,), {"a": "b"}, BLOB)
DOCUMENT = ChannelDocument("stable", 1, 0, (ArtifactEntry("gateway", BLOB.digest, 1000),))

PARSERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "bundle": (signature.sign(DIGEST, KEY), signature.parse),
    "verdict": (
        signature.sign(DIGEST, KEY),
        lambda data: verify("oci://host/a", DIGEST, [data], Rule(keys=(KEY.public,))),
    ),
    "statement": (Statement(DIGEST).encode(), Statement.parse),
    "manifest": (MANIFEST.serialize(), lambda data: ImageManifest.parse(data).files()),
    "index": (ImageIndex((BLOB, BLOB)).serialize(), ImageIndex.parse),
    "publication": (publish(DOCUMENT, [KEY]).serialize(), Publication.parse),
    "document": (DOCUMENT.serialize(), ChannelDocument.parse),
    "rotation": (
        KeyRotation("stable", 0, KeySet((KEY.public,), 1, 2)).serialize(),
        KeyRotation.parse,
    ),
    "token": (b'{"token": "abc", "expires_in": 300}', _token_in),
    "error of a registry": (
        b'{"errors": [{"code": "DENIED", "message": "no", "detail": {}}]}',
        lambda data: failure(403, {}, data, "host", "the manifest"),
    ),
}
"""A valid text, and what reads it."""

HOSTILE: tuple[Any, ...] = (
    None, True, -1, 10**400, 2**63, 1e300, "", "\ud800", "a\x1b[2Jb", "\0", "x" * 5000, [], {},
    [[]], {"": ""}, "../../x", "sha256:", "https://[", "9999-99-99T99:99:99Z",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
)  # fmt: skip


def refusal(action: Callable[[], object]) -> TorvynError | None:
    """How it refused what it read. Any other exception is a bug."""
    try:
        action()
    except TorvynError as error:
        return error
    return None


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All containers in a JSON value, with the keys of what is in them."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in list(items):
        yield value, key
        if isinstance(each, dict | list):
            yield from places(each)


def mutants(data: bytes, draw: random.Random) -> Iterator[bytes]:
    """Each value replaced by each hostile one; deep ones; and random bytes changed."""
    for number, _ in enumerate(places(json.loads(data))):
        for hostile in HOSTILE:
            value = json.loads(data)
            container, key = list(places(value))[number]
            container[key] = hostile
            yield json.dumps(value).encode()
        value = json.loads(data)
        container, key = list(places(value))[number]
        container[key] = "@"
        for depth in (900, 5000, 100_000):
            nested = "[" * depth + "]" * depth
            yield json.dumps(value).replace('"@"', nested).encode()
    for _ in range(sample(100, full=3000)):
        changed = bytearray(data)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        yield bytes(changed)


@pytest.mark.parametrize("name", PARSERS)
def test_a_changed_text_is_read_or_refused(name: str) -> None:
    data, parse = PARSERS[name]
    parse(data)

    for mutant in mutants(data, random.Random(name)):
        error = refusal(partial(parse, mutant))
        # What is said of it can be shown.
        assert error is None or error.render().encode(), mutant


def _login(folder: Path) -> None:
    login = asyncio.run(find_login("host", {"DOCKER_CONFIG": str(folder), "PATH": ""}))
    assert login is None or login.basic.isascii()


def _tag(folder: Path) -> None:
    cache, reference = Cache(folder), Reference.parse("oci://host/a:1")
    cache.artifacts()
    cache.recall(reference)


def _state(folder: Path) -> None:
    deployment = Deployment(folder)
    state = deployment.state()
    state.start(deployment.records())
    accepted_trust(state, "stable")


def _settings(folder: Path) -> None:
    settings = DeploymentSettings.read(folder / "deployment.json")
    record = GenerationRecord(1, DIGEST, "dist", "2026-01-01T00:00:00+00:00")
    generation_command(Deployment(folder), settings, record)
    if settings.follow is not None:
        open_source(settings.follow.source)


def _records(folder: Path) -> None:
    deployment = Deployment(folder)
    DeploymentState().start(deployment.records())


PEM = KEY.public.pem.decode()
TRUST = ChannelTrust("stable", KeySet((KEY.public,)), 3).to_dict()
FOLLOWING = Following("https://host/channel.json", "stable", (PEM,))
FILES: dict[str, tuple[str, Any, Callable[[Path], object]]] = {
    "logins": (
        "config.json",
        {"auths": {"host": {"username": "a", "password": "b"}}, "credHelpers": {"x": "y"}},
        _login,
    ),
    "a login": ("config.json", {"auths": {"host": {"auth": "YTpi"}}, "credsStore": ""}, _login),
    "a cached tag": (
        f"tags/{hashlib.sha256(b'host/a:1').hexdigest()}",
        {"reference": "host/a:1", "digest": DIGEST, "at": "2026-01-01T00:00:00+00:00"},
        _tag,
    ),
    "a state": (
        "state.json",
        DeploymentState(good=frozenset((1,)), failed={DIGEST: Failure("x")}, channel=TRUST)
        .accept("testing", TRUST)
        .to_dict(),
        _state,
    ),
    "a record": (
        "generations/1/generation.json",
        GenerationRecord(1, DIGEST, "dist", "2026-01-01T00:00:00+00:00").to_dict(),
        _records,
    ),
    "settings": (
        "deployment.json",
        {"schema": 1, **asdict(DeploymentSettings(config={"a": "b"}, follow=FOLLOWING))},
        _settings,
    ),
}
"""A file on this machine, what is in it, and what reads it."""


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_of_this_machine_is_read_or_refused(tmp_path: Path, name: str) -> None:
    place, value, read = FILES[name]
    Cache(tmp_path)
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "project").mkdir()
    (path.parent / "project/Torvyn.toml").touch()
    path.write_text(json.dumps(value))
    read(tmp_path)

    for mutant in mutants(path.read_bytes(), random.Random(name)):
        path.write_bytes(mutant)
        error = refusal(partial(read, tmp_path))
        assert error is None or escape_controls(error.render()).encode(), mutant


LOCK = Lock(
    (LockedComponent("a", "python", DIGEST),),
    (LockedFile("a.wit", DIGEST),),
    (LockedArtifact("oci://host/a:1", DIGEST),),
).render()
POLICY = """
default = "warn"
keys = ["a.pub"]
[[source]]
prefix = "oci://host/a"
keys = ["a.pub"]
threshold = 1
max_age = "90d"
[[source]]
prefix = "oci:/srv"
action = "allow"
"""
TOML = {"torvyn.lock": LOCK, "trust.toml": POLICY}
TOML_WORDS = (
    "\x00",
    "\ud800",
    "\\ud800",
    "9" * 400,
    "[" * 5000,
    "1e400",
    '"',
    "=",
    "\n",
    "{",
    "nan",
)


@pytest.mark.parametrize("name", TOML)
def test_a_changed_toml_file_is_read_or_refused(tmp_path: Path, name: str) -> None:
    path, draw = tmp_path / name, random.Random(name)
    (tmp_path / "a.pub").write_bytes(KEY.public.pem)
    read = Lock.read if name == "torvyn.lock" else TrustPolicy.read
    target = tmp_path if name == "torvyn.lock" else path
    path.write_text(TOML[name])
    assert read(target)

    for _ in range(sample(200, full=5000)):
        text = TOML[name].encode()
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(text))
            word = draw.choice(TOML_WORDS).encode(errors="surrogatepass")
            text = text[:at] + draw.choice((word, bytes([draw.randrange(256)]))) + text[at + 1 :]
        path.write_bytes(text)
        error = refusal(lambda: read(target))
        assert error is None or error.code.startswith("artifact."), text


def test_half_a_pair_of_surrogates_is_no_text_and_a_pair_is() -> None:
    rule = Rule(keys=(KEY.public,))
    record = json.loads(signature.sign(DIGEST, KEY))
    record["dsseEnvelope"]["payloadType"] = "\ud800"
    worthless = json.dumps(record).encode()

    verified = verify("oci://host/a", DIGEST, [worthless, signature.sign(DIGEST, KEY)], rule)

    assert verified.is_verified
    assert json.loads(canonical({"a": "\U0001f600"}))
    parsed = ImageManifest.parse(MANIFEST.serialize().replace(b'"b"', b'"\\ud83d\\ude00"'))
    assert parsed.annotations == {"a": "\U0001f600"}


ADDRESSES = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="htps:/[]@.%#?&=0123456789ab\\ \udcff", max_size=40),
    st.builds("https://{}".format, st.text(max_size=80)),
)


@given(ADDRESSES, st.sampled_from(["", "https://host/v2/a"]))
def test_an_address_is_one_that_can_be_asked_or_refused(address: str, base: str) -> None:
    error = refusal(lambda: checked_address(address, "https://host", base))

    assert error is None or error.code == "artifact.registry-unsafe"


@given(st.text(alphabet=string.printable, max_size=80), ADDRESSES)
def test_a_challenge_is_read_or_is_none(text: str, realm: str) -> None:
    Challenge.parse(text)
    Challenge.parse(f'Bearer realm="{realm}", {text}')


def fits(name: str) -> bool:
    return WheelName.parse(name).fits(Machine.here())


@given(st.text(max_size=60))
def test_the_name_of_a_wheel_is_read_or_refused(text: str) -> None:
    for name in (text, f"{text}.whl", f"a-1-{text}-{text}-manylinux_{text}_x86_64.whl"):
        error = refusal(partial(fits, name))
        assert error is None or error.code == "artifact.invalid"


WHEEL_CODES = ("artifact.invalid", "artifact.bad-path", "artifact.too-large")


def test_a_damaged_wheel_is_unpacked_or_refused(tmp_path: Path) -> None:
    draw = random.Random(1)
    wheel = make_wheel(tmp_path, files={"greeting.py": "x = 1\n" * 500, "a/b.py": ""})
    data = wheel.read_bytes()

    for number in range(sample(300, full=5000)):
        changed = bytearray(data)
        if draw.random() < 0.2:
            del changed[draw.randrange(len(changed)) :]
        for _ in range(draw.randint(1, 4)):
            if changed:
                changed[draw.randrange(len(changed))] = draw.randrange(256)
        wheel.write_bytes(changed)
        error = refusal(partial(install, [wheel], tmp_path / f"site-{number}"))
        assert error is None or error.code in WHEEL_CODES
    assert not list(tmp_path.glob(".site-*"))


@pytest.mark.parametrize("place", ["components/enrich", "data", ""])
def test_a_file_whose_name_is_not_utf8_is_refused_by_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    place: str,
) -> None:
    project = make_project(tmp_path / "project")
    Path(os.fsdecode(os.fsencode(project / place) + b"/caf\xe9.csv")).write_text("x")
    monkeypatch.chdir(project)

    code = app.run(["pack", "--include", "**/*.csv"])

    assert (code, "caf\\udce9.csv` is not UTF-8" in capfd.readouterr().err) == (2, True)


@pytest.mark.parametrize("command", ["inspect", "verify", "check", "run", "cache"])
@pytest.mark.parametrize("format", ["human", "json"])
def test_an_argument_that_is_not_utf8_is_no_bug(
    capfd: pytest.CaptureFixture[str], command: str, format: str
) -> None:
    code = app.run([command, os.fsdecode(b"oci:\xff/\xfe:1"), "--format", format])

    assert code in (2, 3)
    assert "udcff" in capfd.readouterr().err
