"""Wasm seen from Python: guests are built and described here.

Toolchains are extras and only needed to build. Nothing here runs a component.
"""
