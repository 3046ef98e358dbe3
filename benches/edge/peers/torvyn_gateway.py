"""Torvyn: `mqtt`, `json-map`, an edge on disk, `http`, all from one manifest."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from typing import Final

from benches.edge.gateway_process import Launch, Peer, Place
from benches.edge.readings import FILTER, SITE
from benches.peers import distribution_version

MANIFEST: Final = """\
[torvyn]
name = "edge-gateway"
version = "0.1.0"
contract_version = "0.1.0"

[runtime]
state_dir = "state"

[flow.main.nodes.sensors]
component = "mqtt"
config = {{ url = "mqtt://127.0.0.1:{broker_port}", topics = ["{filter}"], client_id = "torvyn" }}

[flow.main.nodes.shape]
component = "json-map"
config = {{ rename = {{ celsius = "value" }}, set = {{ site = "{site}" }} }}

[flow.main.nodes.uplink]
component = "http"
config = {{ url = "http://127.0.0.1:{collector_port}/readings" }}

[[flow.main.edges]]
from = "sensors"
to = "shape"

[[flow.main.edges]]
from = "shape"
to = "uplink"
{carrier}
"""
DISK: Final = 'carrier = "disk"\nmax_bytes = "256 MiB"'


def missing() -> str | None:
    if importlib.util.find_spec("torvyn.components.builtin.source_mqtt") is None:
        return "this version has no mqtt component"
    return None if importlib.util.find_spec("paho") else 'pip install "torvyn[mqtt]"'


def peers() -> list[Peer]:
    version = f"torvyn {distribution_version('torvyn')}"
    return [Peer("torvyn, disk edge", version, partial(_configure, DISK), "yes, fsync")]


def _configure(carrier: str, place: Place) -> Launch:
    manifest = MANIFEST.format(
        broker_port=place.broker_port,
        collector_port=place.collector_port,
        filter=FILTER,
        site=SITE,
        carrier=carrier,
    )
    (place.folder / "Torvyn.toml").write_text(manifest)
    return Launch([sys.executable, "-m", "torvyn", "run"])
