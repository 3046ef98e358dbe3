"""Manifest: the text of Torvyn.toml -> a record in which everything knows its file:line:column.

    schema   the one table of keys          parse     text -> Manifest, all problems at once
    toml     text -> a tree with places     render    Manifest -> text; parse(render(m)) == m
    units    `64MiB`, `100us`               settings  flags > environment > file > user > default

What a component is, and whether the graph makes sense, is link's business.
"""

from torvyn.manifest.parse import parse, parse_leniently, read, read_text
from torvyn.manifest.records import (
    ComponentRecord,
    EdgeRecord,
    FlowRecord,
    Manifest,
    NodeRecord,
    ObservabilityRecord,
    PortRef,
    ProjectRecord,
    Record,
    RuntimeRecord,
)
from torvyn.manifest.render import render
from torvyn.manifest.schema.json_schema import json_schema
from torvyn.manifest.schema.reference import reference
from torvyn.manifest.settings import Setting, Settings, resolve

__all__ = [
    "ComponentRecord",
    "EdgeRecord",
    "FlowRecord",
    "Manifest",
    "NodeRecord",
    "ObservabilityRecord",
    "PortRef",
    "ProjectRecord",
    "Record",
    "RuntimeRecord",
    "Setting",
    "Settings",
    "json_schema",
    "parse",
    "parse_leniently",
    "read",
    "read_text",
    "reference",
    "render",
    "resolve",
]
