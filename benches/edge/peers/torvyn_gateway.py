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
MEMORY: Final = ""
DISK: Final = 'carrier = "disk"\nmax_bytes = "256 MiB"'
LIVE_FIRST: Final = f'{DISK}\norder = "live-first"\ndrain_rate = 12000'


def missing() -> str | None:
    for needed in ("components.builtin.source_mqtt", "components.builtin.sink_http", "durable"):
        if importlib.util.find_spec(f"torvyn.{needed}") is None:
            return f"this version of Torvyn has no torvyn.{needed}"
    return None if importlib.util.find_spec("paho") else 'pip install "torvyn[mqtt]"'


def peers() -> list[Peer]:
    return [
        peer(DISK),
        peer(LIVE_FIRST, "torvyn, live-first"),
        peer(MEMORY, "torvyn, no disk edge", "at the broker"),
    ]


def peer(carrier: str, name: str = "torvyn, disk edge", is_durable: str = "yes, fsync") -> Peer:
    """`carrier` is the part of the manifest that describes the edge in front of the uplink."""
    version = f"torvyn {distribution_version('torvyn')}"
    return Peer(name, version, partial(_configure, carrier), is_durable)


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
