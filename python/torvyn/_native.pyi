"""The native module. Text that a person reads is never made there: errors carry fields."""

from typing import Any

# toml.rs
class TomlError(ValueError):
    """`args` are `(kind, message, start, end)`; kind is `syntax` or `too-deep`, in bytes."""

    args: tuple[str, str, int, int]

def parse_toml(text: str) -> tuple[str, int, int, Any]:
    """A tree of `(kind, start, end, value)`; a table's value is `[(key, start, end, node)]`."""
