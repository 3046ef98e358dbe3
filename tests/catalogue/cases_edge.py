"""One provocation for each code of deployments."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from torvyn._artifact.keys import SigningKey
from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import COMPONENT, PROJECT, TITLE, Digest, ImageManifest
from torvyn._deploy.channel import ArtifactEntry, ChannelDocument
from torvyn._deploy.deployment import Deployment, find_deployment, open_deployment
from torvyn._deploy.generation_state import DeploymentState
from torvyn._deploy.publication import KeySet, check_next, older_project, publish, rotate
from torvyn._deploy.settings import DeploymentSettings, Following
from torvyn._deploy.source import FetchLimits, FolderSource, WebSource
from torvyn._deploy.trust import ChannelTrust, accept
from torvyn._deploy.update import Updater, add_from_layout
from torvyn.errors import DeployError

ENTRY = ArtifactEntry("gateway", Digest("sha256:" + "a" * 64), 1000)


def _deployment(folder: Path) -> Deployment:
    def fill(project: Path) -> None:
        project.mkdir()
        (project / "Torvyn.toml").write_text("")

    deployment = Deployment(folder / "gateway")
    deployment.add(fill, "sha256:" + "0" * 64, "test", version=1)
    return deployment


def _in_use(folder: Path) -> None:
    deployment = _deployment(folder)
    with (deployment.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with mock.patch("torvyn._deploy.deployment._LOCK_WAIT_S", 0.0):
            deployment.activate(1)


def _unwritable(folder: Path) -> None:
    (folder / "gateway").write_text("")
    Deployment(folder / "gateway").create()


def _damaged(folder: Path) -> None:
    deployment = _deployment(folder)
    (deployment.path(1) / "generation.json").write_text("")
    deployment.activate(1)


def _barred(folder: Path) -> None:
    deployment = _deployment(folder)
    state = json.loads((deployment.folder / "state.json").read_text())
    (deployment.folder / "state.json").write_text(json.dumps({**state, "min_versions": {"": 2}}))
    deployment.activate(1)


def _component(folder: Path) -> None:
    layout = Layout.create(folder / "layout")
    descriptor = layout.add_manifest(ImageManifest(COMPONENT, ()), "latest")
    add_from_layout(Deployment(folder / "gateway"), layout, descriptor, "test")


def _accept(version: int = 1, seen: int = 0, digest: str = "", **fields: Any) -> None:
    """Offers a signed document to a deployment that has seen another version."""
    key = SigningKey.generate()
    values = {"channel": "stable", "issued_s": 0, "artifacts": (ENTRY,), **fields}
    data = publish(ChannelDocument(version=version, **values), [key]).serialize()
    trust = ChannelTrust("stable", KeySet((key.public,)), seen, digest)
    accept(data, trust, 2e9)


def _other_keys(_folder: Path) -> None:
    trusted, named = (KeySet((SigningKey.generate().public,)) for _ in range(2))
    ChannelTrust("stable", trusted).pinned(named)


def _untrusted(_folder: Path) -> None:
    data = publish(ChannelDocument("stable", 1, 0, (ENTRY,)), [SigningKey.generate()]).serialize()
    accept(data, ChannelTrust("stable", KeySet((SigningKey.generate().public,))), 2e9)


def _unsuitable(folder: Path) -> None:
    layout = Layout.create(folder / "layout")
    blob = layout.add("text/plain", b"", {TITLE: "Torvyn.toml"})
    descriptor = layout.add_manifest(ImageManifest(PROJECT, (blob,)), "latest")
    key = SigningKey.generate()
    entry = ArtifactEntry("gateway", descriptor.digest, 10_000)
    data = publish(ChannelDocument("stable", 1, 2_000_000_000, (entry,)), [key]).serialize()
    (folder / "layout" / "channel.json").write_bytes(data)
    follow = Following(str(folder / "layout/channel.json"), "stable", (key.public.pem.decode(),))
    Updater(
        Deployment(folder / "gateway"),
        DeploymentSettings(),
        follow,
        check=lambda manifest: "it needs a camera",
        torvyn_version="0.1.0",
    ).look()


def _slow(_folder: Path) -> None:
    source = WebSource("http://127.0.0.1/channel.json", FetchLimits(total_s=1.0))
    source._check_rate("http://127.0.0.1/channel.json", 10, 2.0)


def _many_channels(_folder: Path) -> None:
    state = DeploymentState()
    for number in range(65):
        state = state.accept(str(number), {"name": str(number)})


def _next(keys: int = 0, may_fall: bool = False, **fields: Any) -> None:
    """Checks a document that follows another; raises its warnings."""
    signers = [SigningKey.generate(), SigningKey.generate()]
    document = ChannelDocument("stable", 5, 0, (ENTRY,), min_version=2)
    before = publish(document, signers[:1])
    after = replace(document, **{"version": 6, **fields})
    raise DeployError.of(check_next(before, after, [signers[keys].public], may_fall=may_fall))


def _same_keys(_folder: Path) -> None:
    key = SigningKey.generate()
    before = publish(ChannelDocument("stable", 1, 0, (ENTRY,)), [key])
    rotate(before, [key], [key], threshold=1, issued_s=0)


def _older_project(_folder: Path) -> None:
    raise DeployError.of([*older_project("gateway", "1.0", "2.0")])


CASES: dict[str, Callable[[Path], Any]] = {
    "edge.channel-artifact-dropped": lambda _: _next(artifacts=(replace(ENTRY, name="other"),)),
    "edge.channel-bar-falls": lambda _: _next(min_version=1),
    "edge.channel-keys-same": _same_keys,
    "edge.channel-new-signers": lambda _: _next(keys=1),
    "edge.channel-project-falls": _older_project,
    "edge.channel-version-falls": lambda _: _next(version=5, may_fall=True),
    "edge.bad-name": lambda folder: open_deployment(folder, "../etc"),
    "edge.channel-artifact-unknown": lambda _: ChannelDocument("stable", 1, 0, (ENTRY,)).artifact(
        "meter"
    ),
    "edge.channel-expired": lambda _: _accept(expires_s=1),
    "edge.channel-forked": lambda _: _accept(3, seen=3, digest="another"),
    "edge.channel-invalid": lambda _: ChannelDocument.parse(b"{}"),
    "edge.channel-keys-differ": _other_keys,
    "edge.channel-other": lambda _: _accept(channel="testing"),
    "edge.channel-rolled-back": lambda _: _accept(2, seen=3),
    "edge.channel-skipped": lambda _: _accept(2**40),
    "edge.channel-untrusted": _untrusted,
    "edge.check-failed": _unsuitable,
    "edge.damaged": _damaged,
    "edge.deployment-unknown": lambda folder: find_deployment(folder, "gateway"),
    "edge.disk-failed": _unwritable,
    "edge.generation-unknown": lambda folder: _deployment(folder).activate(7),
    "edge.in-use": _in_use,
    "edge.no-fallback": lambda folder: _deployment(folder).roll_back(),
    "edge.no-generation": lambda folder: Deployment(folder / "gateway").start(),
    "edge.not-a-project": _component,
    "edge.too-many-channels": _many_channels,
    "edge.too-slow": _slow,
    "edge.unreachable": lambda folder: FolderSource(folder / "channel.json").publication(),
    "edge.version-barred": _barred,
}
