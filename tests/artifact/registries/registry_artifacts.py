"""Artifacts for tests of registries, and policies and limits for them."""

from __future__ import annotations

from typing import Final

from torvyn._artifact.layout import Layout
from torvyn._artifact.oci import PROJECT, TITLE, Descriptor, ImageManifest
from torvyn._artifact.registry_http import Limits
from torvyn._artifact.trust import Rule, TrustPolicy

QUICK: Final = Limits(connect_s=5, silence_s=5, tries=2, first_delay_s=0.001)
"""For tests in which tries must fail."""
ALLOW: Final = TrustPolicy((Rule("", "allow"),))
DATA: Final = bytes(range(256)) * 1000
FILES: Final = {"Torvyn.toml": b"[torvyn]\n", "empty.txt": b"", "data.bin": DATA}


def add_artifact(layout: Layout, tag: str = "1.0", **files: bytes) -> Descriptor:
    layers = [
        layout.add("application/octet-stream", data, {TITLE: path})
        for path, data in (FILES | files).items()
    ]
    return layout.add_manifest(ImageManifest(PROJECT, tuple(layers)), tag)
