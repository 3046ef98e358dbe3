"""Flows whose manifests are tested, and the types of the fixtures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

HEAD = '[torvyn]\nname = "shop"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
FLOW = """
[flow.main.nodes.readings]
component = "lines"
config = { path = "readings.txt" }

[flow.main.nodes.totals]
component = "window"
key = "device"
config = { every = "10s", function = "count" }
place = { replicas = 2, cpus = 0.5, memory = "512MiB", gpus = 1 }

[flow.main.nodes.uplink]
component = "console"

[[flow.main.edges]]
from = "readings"
to = "totals"
carrier = "nats"

[[flow.main.edges]]
from = "totals"
to = "uplink"
carrier = "nats"
"""
SERVED = """
[flow.chat.nodes.model]
component = "engine:scripted"
config = { text = "Hello." }

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "answer"
"""

Link = Callable[..., "subprocess.CompletedProcess[str]"]
Objects = Callable[..., list[dict[str, Any]]]
