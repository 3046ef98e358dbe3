"""Files that the configs of nodes name, such as `config = { table = "devices.json" }`.

A text in a config that is the path of a file in the project is that file, except in the config of a
sink, which would write it. On another machine the same text means the packed file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torvyn._manifest.records import FlowRecord, NodeRecord


def named_files(flow: FlowRecord, folder: Path) -> Iterator[Path]:
    """The files of the project that the configs of a flow's nodes name."""
    for node in reading_nodes(flow):
        for text in texts(config_of(node)):
            if is_relative(text) and (folder / text).is_file():
                yield folder / text


def is_relative(text: str) -> bool:
    """Whether a text may be the path of a file in the project."""
    return bool(text) and len(text) < 512 and "\0" not in text and not text.startswith("/")


def reading_nodes(flow: FlowRecord) -> list[NodeRecord]:
    """All but the sinks."""
    senders = {edge.source.node for edge in flow.edges}
    return [node for node in flow.nodes.values() if node.name in senders]


def config_of(node: NodeRecord) -> Any:
    """The config as data; a text that is a JSON table is one."""
    config = node.config
    if isinstance(config, str) and config.lstrip().startswith("{"):
        try:
            return json.loads(config)
        except (ValueError, RecursionError):
            return config
    return config


def texts(value: Any) -> Iterator[str]:
    """All texts in a value that was JSON or TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)
