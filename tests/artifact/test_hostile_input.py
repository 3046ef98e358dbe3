"""What comes from outside is read or refused: it never ends a command as a bug of torvyn."""

from __future__ import annotations

import json
import os
import random
import string
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from projects import make_project
from scale import sample
from wheel_files import make_wheel

from torvyn.artifact.json_form import canonical
from torvyn.artifact.model import PROJECT, TITLE, Descriptor, ImageIndex, ImageManifest
from torvyn.artifact.registry.http.addresses import checked_address
from torvyn.artifact.registry.http.challenge import Challenge
from torvyn.artifact.signature import bundle
from torvyn.artifact.signature.keys import SigningKey
from torvyn.artifact.signature.policy import Rule
from torvyn.artifact.signature.statement import Statement
from torvyn.artifact.signature.verification import verify
from torvyn.artifact.wheels.site import install
from torvyn.artifact.wheels.tags import Machine, WheelName
from torvyn.cli import app
from torvyn.edge.channel import ArtifactEntry, ChannelDocument, Publication
from torvyn.edge.channel.signing import publish
from torvyn.errors import TorvynError

KEY = SigningKey.generate()
DIGEST = "sha256:" + "a" * 64
BLOB = Descriptor.of("text/plain", b"x", {TITLE: "x"})
MANIFEST = ImageManifest(PROJECT, (BLOB,), {"a": "b"}, BLOB)
DOCUMENT = ChannelDocument("stable", 1, 0, (ArtifactEntry("gateway", BLOB.digest, 1000),))

PARSERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "bundle": (bundle.sign(DIGEST, KEY), bundle.parse),
    "verdict": (
        bundle.sign(DIGEST, KEY),
        lambda data: verify("oci://host/a", DIGEST, [data], Rule(keys=(KEY.public,))),
    ),
    "statement": (Statement(DIGEST).encode(), Statement.parse),
    "manifest": (MANIFEST.serialize(), lambda data: ImageManifest.parse(data).files()),
    "index": (ImageIndex((BLOB, BLOB)).serialize(), ImageIndex.parse),
    "publication": (publish(DOCUMENT, [KEY]).serialize(), Publication.parse),
    "document": (DOCUMENT.serialize(), ChannelDocument.parse),
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


def test_half_a_pair_of_surrogates_is_no_text_and_a_pair_is() -> None:
    rule = Rule(keys=(KEY.public,))
    record = json.loads(bundle.sign(DIGEST, KEY))
    record["dsseEnvelope"]["payloadType"] = "\ud800"
    worthless = json.dumps(record).encode()

    verified = verify("oci://host/a", DIGEST, [worthless, bundle.sign(DIGEST, KEY)], rule)

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
