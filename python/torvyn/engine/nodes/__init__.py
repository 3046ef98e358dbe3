"""Engines as nodes of a flow: sources, and processors behind a `request`."""
