"""Attacks on a channel, each against a deployment that runs version 2. None may be accepted.

Each function arranges the attack in the folder of the channel and may return another source.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from channel_server import channel_server
from channels import NOW, document, key
from followed_channel import FollowedChannel

from torvyn._artifact.signature import Envelope
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.publication import Publication, publish, rotate
from torvyn._deploy.source import FetchLimits
from torvyn._deploy.trust import MAX_RISE
from torvyn.errors import TorvynError

EVIL = "6.6.6"
LIMITS = FetchLimits(silence_s=0.2, min_bytes_per_s=1e5, total_s=2.0)


@dataclass
class Scene:
    channel: FollowedChannel
    deployment: Deployment
    first: bytes
    """The publication of version 1, which the attacker has kept."""
    clock_s: float = NOW


def scene(folder: Path) -> Scene:
    channel, deployment = FollowedChannel(folder / "channel"), Deployment(folder / "gateway")
    channel.publish(1, "1.0.0")
    first = channel.file.read_bytes()
    channel.updater(deployment).look()
    channel.publish(2, "2.0.0")
    channel.updater(deployment).look()
    deployment.change(lambda state, records: state.mark_good(2))
    return Scene(channel, deployment, first)


def roll_back(scene: Scene) -> None:
    scene.channel.file.write_bytes(scene.first)


def freeze(scene: Scene) -> None:
    """A newer document that has expired, on a device whose clock was set back."""
    entry = scene.channel.entry(EVIL)
    dates = {"issued_s": int(NOW) - 1000, "expires_s": int(NOW) - 10}
    scene.channel.offer(3, artifacts=(entry,), **dates)
    scene.clock_s = 0.0


def mix_and_match(scene: Scene) -> None:
    """The new document with an artifact of another one: its digest does not fit."""
    entry = scene.channel.publish(3, "3.0.0")
    evil = scene.channel.entry(EVIL)
    blobs = scene.channel.folder / "blobs" / "sha256"
    names = [each.digest.removeprefix("sha256:") for each in (entry, evil)]
    (blobs / names[0]).unlink()
    (blobs / names[1]).rename(blobs / names[0])


def wrong_key(scene: Scene) -> None:
    scene.channel.offer(3, signer="mallory", artifacts=(scene.channel.entry(EVIL),))


def no_signature(scene: Scene) -> None:
    payload = document(3, artifacts=(scene.channel.entry(EVIL),)).serialize()
    signed = publish(document(3), [key("a")])
    unsigned = replace(signed.document, payload=payload, signatures=(b"\0" * 64,))
    scene.channel.file.write_bytes(replace(signed, document=unsigned).serialize())


def changed_document(scene: Scene) -> None:
    scene.channel.publish(3, "3.0.0")
    signed = Publication.parse(scene.channel.file.read_bytes())
    payload = document(3, artifacts=(scene.channel.entry(EVIL),)).serialize()
    forged = replace(signed, document=replace(signed.document, payload=payload))
    scene.channel.file.write_bytes(forged.serialize())


def oversize_artifact(scene: Scene) -> None:
    entry = scene.channel.entry(EVIL)
    scene.channel.offer(3, artifacts=(replace(entry, size=entry.size - 1),))


def tampered_layer(scene: Scene) -> None:
    scene.channel.publish(3, "3.0.0")
    for blob in (scene.channel.folder / "blobs" / "sha256").iterdir():
        text = blob.read_bytes()
        if text.startswith(b"\n[torvyn]") and b"3.0.0" in text:
            blob.chmod(0o644)
            blob.write_bytes(text.replace(b"3.0.0", EVIL.encode()))


def fast_forward(scene: Scene) -> None:
    scene.channel.offer(MAX_RISE + 3, artifacts=(scene.channel.entry(EVIL),))


def fork(scene: Scene) -> None:
    scene.channel.offer(2, artifacts=(scene.channel.entry(EVIL),))


def other_channel(scene: Scene) -> None:
    scene.channel.offer(3, channel="testing", artifacts=(scene.channel.entry(EVIL),))


def _rotation(scene: Scene, *signers: str) -> None:
    entry = scene.channel.entry(EVIL)
    before = publish(document(2, artifacts=(entry,)), [key("a")])
    keys = [key("mallory")]
    rotated = rotate(before, [key("a")], keys, threshold=1, issued_s=int(NOW))
    statement = rotated.rotations[0]
    signed = Envelope.sign(
        statement.payload_type, statement.payload, [key(name) for name in signers]
    )
    scene.channel.file.write_bytes(replace(rotated, rotations=(signed,)).serialize())


def rotation_by_new_key(scene: Scene) -> None:
    _rotation(scene, "mallory")


def rotation_by_old_key(scene: Scene) -> None:
    _rotation(scene, "a")


def not_json(scene: Scene) -> None:
    scene.channel.file.write_bytes(b"[" * 100_000)


def huge_publication(scene: Scene) -> None:
    scene.channel.file.write_bytes(scene.channel.file.read_bytes() + b" " * (2 << 20))


ATTACKS: dict[str, Callable[[Scene], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        roll_back,
        freeze,
        mix_and_match,
        wrong_key,
        no_signature,
        changed_document,
        oversize_artifact,
        tampered_layer,
        fast_forward,
        fork,
        other_channel,
        rotation_by_new_key,
        rotation_by_old_key,
        not_json,
        huge_publication,
    )
}


def is_accepted(scene: Scene, source: str | None = None) -> bool:
    """Whether anything of the attack has become part of the deployment."""
    before = scene.deployment.state()
    updater = scene.channel.updater(
        scene.deployment, source, limits=LIMITS, clock=lambda: scene.clock_s
    )
    try:
        updater.look()
    except TorvynError:
        pass
    else:
        return True
    after, texts = scene.deployment.state(), _manifests(scene.deployment)
    return after.current != before.current or any(EVIL in text for text in texts)


def _manifests(deployment: Deployment) -> list[str]:
    return [deployment.manifest(number).read_text() for number in deployment.records()]


@contextmanager
def endless_server(scene: Scene) -> Iterator[str]:
    """A server whose answers never end."""
    with channel_server(scene.channel.folder) as server:
        server.body = lambda data: itertools.repeat(b" " * 65536)
        yield f"{server.url}/channel.json"
