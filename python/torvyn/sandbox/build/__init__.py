"""Builds guests: source code in C, Python or Rust to WebAssembly components.

build         builds a guest, unless it is up to date
project       a guest's folder and its files
c_guest       C, compiled by zig
python_guest  Python, compiled by componentize-py
rust_guest    Rust, compiled by cargo
rust_wrapper  replaces rustc for crates whose bindings need `generate_all`
class_source  reads class, role and ports from a Python file without running it
wit           the built-in WIT packages as files, and the check of a project's own
"""
