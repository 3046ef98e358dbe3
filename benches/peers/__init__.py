"""Peers: the same work in other people's hands, one file each.

A peer module has `NAME`, `VERSION()`, `available()` (why it cannot run, or None) and `run(tokens)`;
`VARIANTS` names other forms of the same peer that are worth a row. Imports of the peer itself
happen inside these, so that asking for one never loads another.
"""

from __future__ import annotations

from importlib.metadata import version


def distribution_version(name: str) -> str:
    return version(name)
