"""Wasm seen from Python: guests are built, compiled, described and made into parts of flows here.

What a guest may take and reach is said by link; the calls themselves are native. Toolchains are
extras, and only needed to build.
"""
