"""The contract: what a component is, what flows through it, and what it may return.

element     elements, their context, and batches
roles       the six base classes, the roles of requests, and which methods a component has
signals     return values that are not data
functions   functions as components
config      what config a component takes
options     the options of flows, nodes and edges, as types
enums       closed sets that Python and the native core share
units       durations and sizes
inspection  reads users' objects safely

Pure data and base classes, no I/O. Nothing here needs the native module, because the same files run
inside a WebAssembly guest. Every other package builds on this one; it imports only `torvyn.errors`.
"""
