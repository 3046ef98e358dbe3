"""Files that the configs of nodes name, such as `config = { table = "devices.json" }`.

A text in a config that is the path of a file in the project is that file, except in the config of a
sink, which would write it. On another machine the same text means the packed file.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torvyn._manifest.records import FlowRecord, NodeRecord


def named_files(flow: FlowRecord, folder: Path) -> Iterator[Path]:
    """The files of the project that the configs of a flow's nodes name."""
    for node in _reading_nodes(flow):
        for text in texts(_config(node)):
            if is_relative(text) and (folder / text).is_file():
                yield folder / text


def with_packed_files(flow: FlowRecord, folder: Path, paths: Collection[str]) -> FlowRecord:
    """The flow, reading the packed files in `folder` instead of files in the current folder."""
    nodes = dict(flow.nodes)
    for node in _reading_nodes(flow):
        config = _config(node)
        changed = _replaced(config, folder, paths)
        if changed != config:
            nodes[node.name] = replace(node, config=changed)
    return replace(flow, nodes=nodes)


def is_relative(text: str) -> bool:
    """Whether a text may be the path of a file in the project."""
    return bool(text) and len(text) < 512 and "\0" not in text and not text.startswith("/")


def _reading_nodes(flow: FlowRecord) -> list[NodeRecord]:
    senders = {edge.source.node for edge in flow.edges}
    return [node for node in flow.nodes.values() if node.name in senders]


def _config(node: NodeRecord) -> Any:
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


def _replaced(value: Any, folder: Path, paths: Collection[str]) -> Any:
    if isinstance(value, str):
        normal = Path(value).as_posix() if is_relative(value) else ""
        is_folder = any(path.startswith(f"{normal}/") for path in paths) if normal else False
        return str(folder / normal) if normal in paths or is_folder else value
    if isinstance(value, dict):
        return {key: _replaced(each, folder, paths) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(each, folder, paths) for each in value]
    return value
