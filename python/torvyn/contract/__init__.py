"""The contract: what a component is, what flows through it, and what it may return.

element        the element and its context
json_payload   a dict or a dataclass as a payload
batch          the elements of one call
roles          the six base classes
config_kind    what config a component takes
enums          closed sets that Python and the native core share
batch_methods  which methods a component has
functions      functions as components
verdict        a filter's decisions
signals        return values that are not data
request_roles  the source of a request and the processor that answers it
options        the options of flows, nodes and edges, as types
units          durations and sizes
inspection     reads users' objects safely

Pure data and base classes, no I/O. Nothing here needs the native module, because the same files run
inside a WebAssembly guest. Every other package builds on this one; it imports only `torvyn.errors`.
"""
