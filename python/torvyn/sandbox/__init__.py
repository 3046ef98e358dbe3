"""Wasm seen from Python: components are compiled, described and made into parts of flows here.

What a guest may take and reach is said by link; the calls themselves are native.
"""
