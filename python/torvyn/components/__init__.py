"""The built-in components, and what they share.

builtin      the components, one file each: `role_name.py`
spec         the spec of a component: name, summary, options
config       a node's config as typed options
identity     what identifies an element in every run of its flow
batch_results  which elements of a batch a sink refuses for good
retry        repeats a call while the other side is away
event_time   event time from fields, and the wall clock
keys         one component per key
windows      the state of `window`
join_side    the waiting elements of an input of `join`
json_fields  reads and writes fields of JSON objects
line_format  lines of bytes as elements
files        files and databases, and positions in them
network      sockets, and the threads that read them
server_url   the URL of a server that a component connects to
tls          the certificates of components
http         HTTP, for the source and the sink of that name
mqtt         MQTT, for the source and the sink of that name
template     a text with the fields of an element
text_guard   what the guards share: options, native form, audit

A component's module is imported when a flow uses it, or when its class is first used here:

    from torvyn.components import Blocklist, HttpSink, Sentence

Where a source and a sink share a name, their classes end in `Source` and `Sink`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn._io.connection import Connection as Connection
    from torvyn.components.builtin.aggregator_batch import Batcher as Batcher
    from torvyn.components.builtin.aggregator_join import Join as Join
    from torvyn.components.builtin.aggregator_sentence import Sentence as Sentence
    from torvyn.components.builtin.aggregator_window import Window as Window
    from torvyn.components.builtin.filter_blocklist import Blocklist as Blocklist
    from torvyn.components.builtin.filter_pattern import Pattern as Pattern
    from torvyn.components.builtin.filter_rate_limit import RateLimit as RateLimit
    from torvyn.components.builtin.filter_redact import Redact as Redact
    from torvyn.components.builtin.processor_json_map import JsonMap as JsonMap
    from torvyn.components.builtin.router_by_field import ByField as ByField
    from torvyn.components.builtin.sink_collect import Collect as Collect
    from torvyn.components.builtin.sink_console import Console as Console
    from torvyn.components.builtin.sink_csv import Csv as CsvSink
    from torvyn.components.builtin.sink_file import File as File
    from torvyn.components.builtin.sink_http import Http as HttpSink
    from torvyn.components.builtin.sink_modbus import Modbus as ModbusSink
    from torvyn.components.builtin.sink_mqtt import Mqtt as MqttSink
    from torvyn.components.builtin.sink_nats import Nats as NatsSink
    from torvyn.components.builtin.sink_null import Null as Null
    from torvyn.components.builtin.sink_response import ResponseSink as ResponseSink
    from torvyn.components.builtin.sink_serial import Serial as SerialSink
    from torvyn.components.builtin.sink_sqlite import SQLite as SQLiteSink
    from torvyn.components.builtin.sink_tcp import Tcp as TcpSink
    from torvyn.components.builtin.sink_udp import Udp as UdpSink
    from torvyn.components.builtin.source_csv import Csv as CsvSource
    from torvyn.components.builtin.source_http import Http as HttpSource
    from torvyn.components.builtin.source_lines import Lines as Lines
    from torvyn.components.builtin.source_modbus import Modbus as ModbusSource
    from torvyn.components.builtin.source_mqtt import Mqtt as MqttSource
    from torvyn.components.builtin.source_nats import Nats as NatsSource
    from torvyn.components.builtin.source_opcua import OpcUa as OpcUa
    from torvyn.components.builtin.source_scripted import Scripted as Scripted
    from torvyn.components.builtin.source_serial import Serial as SerialSource
    from torvyn.components.builtin.source_sqlite import SQLite as SQLiteSource
    from torvyn.components.builtin.source_tail import Tail as Tail
    from torvyn.components.builtin.source_tcp import Tcp as TcpSource
    from torvyn.components.builtin.source_timer import Timer as Timer
    from torvyn.components.builtin.source_udp import Udp as UdpSource

__all__ = [
    "BUILTINS",
    "CLASSES",
    "ENGINES",
    "ENGINE_PROCESSORS",
    "GUARDS",
    "REQUEST",
    "SINKS",
    "Batcher",
    "Blocklist",
    "ByField",
    "Collect",
    "Connection",
    "Console",
    "CsvSink",
    "CsvSource",
    "File",
    "HttpSink",
    "HttpSource",
    "Join",
    "JsonMap",
    "Lines",
    "ModbusSink",
    "ModbusSource",
    "MqttSink",
    "MqttSource",
    "NatsSink",
    "NatsSource",
    "Null",
    "OpcUa",
    "Pattern",
    "RateLimit",
    "Redact",
    "ResponseSink",
    "SQLiteSink",
    "SQLiteSource",
    "Scripted",
    "Sentence",
    "SerialSink",
    "SerialSource",
    "Tail",
    "TcpSink",
    "TcpSource",
    "Timer",
    "UdpSink",
    "UdpSource",
    "Window",
]

BUILTINS: Final[dict[str, str]] = {
    "lines": "torvyn.components.builtin.source_lines:Lines",
    "scripted": "torvyn.components.builtin.source_scripted:Scripted",
    "timer": "torvyn.components.builtin.source_timer:Timer",
    "tail": "torvyn.components.builtin.source_tail:Tail",
    "csv": "torvyn.components.builtin.source_csv:Csv",
    "sqlite": "torvyn.components.builtin.source_sqlite:SQLite",
    "mqtt": "torvyn.components.builtin.source_mqtt:Mqtt",
    "http": "torvyn.components.builtin.source_http:Http",
    "tcp": "torvyn.components.builtin.source_tcp:Tcp",
    "udp": "torvyn.components.builtin.source_udp:Udp",
    "nats": "torvyn.components.builtin.source_nats:Nats",
    "opcua": "torvyn.components.builtin.source_opcua:OpcUa",
    "serial": "torvyn.components.builtin.source_serial:Serial",
    "modbus": "torvyn.components.builtin.source_modbus:Modbus",
    "blocklist": "torvyn.components.builtin.filter_blocklist:Blocklist",
    "pattern": "torvyn.components.builtin.filter_pattern:Pattern",
    "redact": "torvyn.components.builtin.filter_redact:Redact",
    "rate-limit": "torvyn.components.builtin.filter_rate_limit:RateLimit",
    "json-map": "torvyn.components.builtin.processor_json_map:JsonMap",
    "by-field": "torvyn.components.builtin.router_by_field:ByField",
    "sentence": "torvyn.components.builtin.aggregator_sentence:Sentence",
    "batch": "torvyn.components.builtin.aggregator_batch:Batcher",
    "window": "torvyn.components.builtin.aggregator_window:Window",
    "join": "torvyn.components.builtin.aggregator_join:Join",
    "console": "torvyn.components.builtin.sink_console:Console",
    "response": "torvyn.components.builtin.sink_response:ResponseSink",
    "file": "torvyn.components.builtin.sink_file:File",
    "null": "torvyn.components.builtin.sink_null:Null",
    "collect": "torvyn.components.builtin.sink_collect:Collect",
}
"""Name -> `module:Class`. A manifest's node names one in `component`."""

SINKS: Final[dict[str, str]] = {
    "csv": "torvyn.components.builtin.sink_csv:Csv",
    "sqlite": "torvyn.components.builtin.sink_sqlite:SQLite",
    "mqtt": "torvyn.components.builtin.sink_mqtt:Mqtt",
    "http": "torvyn.components.builtin.sink_http:Http",
    "tcp": "torvyn.components.builtin.sink_tcp:Tcp",
    "udp": "torvyn.components.builtin.sink_udp:Udp",
    "nats": "torvyn.components.builtin.sink_nats:Nats",
    "serial": "torvyn.components.builtin.sink_serial:Serial",
    "modbus": "torvyn.components.builtin.sink_modbus:Modbus",
}
"""The same for sinks that share their name with a source. A node with an input is the sink."""

ENGINES: Final[dict[str, str]] = {
    "engine:scripted": "torvyn.engine.nodes.source_scripted:ScriptedSource",
    "engine:openai": "torvyn.engine.nodes.source_openai:OpenAISource",
    "engine:local": "torvyn.engine.nodes.source_local:LocalSource",
    "engine:transformers": "torvyn.engine.nodes.source_transformers:TransformersSource",
    "engine:mlc": "torvyn.engine.nodes.source_mlc:MLCSource",
    "engine:pool": "torvyn.engine.nodes.source_pool:PoolSource",
}
"""The same for engines as sources. Only their names are here: `engine` imports this package."""

REQUEST: Final[dict[str, str]] = {"request": "torvyn.engine.nodes.source_request:RequestSource"}
"""The same for the source of the request that an engine answers."""

ENGINE_PROCESSORS: Final[dict[str, str]] = {
    "engine:scripted": "torvyn.engine.nodes.processors:ScriptedProcessor",
    "engine:openai": "torvyn.engine.nodes.processors:OpenAIProcessor",
    "engine:local": "torvyn.engine.nodes.processors:LocalProcessor",
    "engine:transformers": "torvyn.engine.nodes.processors:TransformersProcessor",
    "engine:mlc": "torvyn.engine.nodes.processors:MLCProcessor",
    "engine:pool": "torvyn.engine.nodes.processors:PoolProcessor",
}
"""The same engines as processors, which answer a `request`."""

GUARDS: Final = frozenset({"blocklist", "pattern", "redact"})
"""Filters that treat each kind and choice as its own text and keep the order of elements."""


def _class_name(name: str, target: str, suffix: str) -> str:
    return target.rpartition(":")[2] + (suffix if name in SINKS else "")


CLASSES: Final[dict[str, str]] = {
    **{_class_name(name, target, "Source"): target for name, target in BUILTINS.items()},
    **{_class_name(name, target, "Sink"): target for name, target in SINKS.items()},
}
"""The names of the classes in this module -> `module:Class`."""

# Hidden from type checkers: with a `__getattr__` they would accept misspelt names.
if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, {**CLASSES, "Connection": "torvyn._io.connection"})
