"""The gateways, one file each. Each defines `peers()`: its configurations that can run here.

telegraf         Telegraf with its write-through disk buffer
connect          Redpanda Connect with its SQLite buffer, and without a buffer
ekuiper          eKuiper with its sink cache
paho_sqlite      paho-mqtt and SQLite by hand, as the floor
torvyn_gateway   Torvyn with a disk edge
"""

from __future__ import annotations

import importlib

from benches.edge.gateway_process import Peer

MODULES = ("torvyn_gateway", "telegraf", "connect", "ekuiper", "paho_sqlite")


def peers(only: list[str]) -> tuple[list[Peer], dict[str, str]]:
    """The gateways that can run, and the reason for each that cannot."""
    found: list[Peer] = []
    missing: dict[str, str] = {}
    for name in MODULES:
        module = importlib.import_module(f"{__name__}.{name}")
        reason = module.missing()
        if reason is not None:
            missing[name] = reason
        else:
            found += [
                peer for peer in module.peers() if not only or peer.name.startswith(tuple(only))
            ]
    return found, missing
