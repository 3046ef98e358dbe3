"""The built-in components, one file each: `kind_name.py`.

Nothing is imported until a flow asks for it.
"""

from __future__ import annotations

from typing import Final

BUILTINS: Final[dict[str, str]] = {
    "lines": "torvyn.components.source_lines:Lines",
    "scripted": "torvyn.components.source_scripted:Scripted",
    "timer": "torvyn.components.source_timer:Timer",
    "blocklist": "torvyn.components.filter_blocklist:Blocklist",
    "pattern": "torvyn.components.filter_pattern:Pattern",
    "redact": "torvyn.components.filter_redact:Redact",
    "rate-limit": "torvyn.components.filter_rate_limit:RateLimit",
    "json-map": "torvyn.components.processor_json_map:JsonMap",
    "by-field": "torvyn.components.router_by_field:ByField",
    "sentence": "torvyn.components.aggregator_sentence:Sentence",
    "batch": "torvyn.components.aggregator_batch:Batch",
    "window": "torvyn.components.aggregator_window:Window",
    "console": "torvyn.components.sink_console:Console",
    "response": "torvyn.components.sink_response:Response",
    "file": "torvyn.components.sink_file:File",
    "null": "torvyn.components.sink_null:Null",
    "collect": "torvyn.components.sink_collect:Collect",
}
"""Name -> `module:Class`. A manifest's node names one in `component`."""

ENGINES: Final[dict[str, str]] = {
    "engine:scripted": "torvyn.engine.source_scripted:ScriptedSource",
    "engine:openai": "torvyn.engine.source_openai:OpenAISource",
    "engine:local": "torvyn.engine.source_local:LocalSource",
    "engine:transformers": "torvyn.engine.source_transformers:TransformersSource",
    "engine:mlc": "torvyn.engine.source_mlc:MLCSource",
}
"""The same for engines as sources. Their room comes after this one, so it is only named here."""

REQUEST: Final[dict[str, str]] = {"request": "torvyn.engine.source_request:RequestSource"}
"""The same for what engines answer."""

ENGINE_PROCESSORS: Final[dict[str, str]] = {
    "engine:scripted": "torvyn.engine.processors:ScriptedProcessor",
    "engine:openai": "torvyn.engine.processors:OpenAIProcessor",
    "engine:local": "torvyn.engine.processors:LocalProcessor",
    "engine:transformers": "torvyn.engine.processors:TransformersProcessor",
    "engine:mlc": "torvyn.engine.processors:MLCProcessor",
}
"""The same engines with an input, where they answer a `request`."""
GUARDS: Final = frozenset({"blocklist", "pattern", "redact"})
"""Filters that tell kinds and choices of elements apart and keep the order of all."""
