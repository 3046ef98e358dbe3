"""Nodes with a `key`: one component per key.

keyed_components  the components of all keys of a node
oldest_elements   the oldest element that each of them holds
keyed_roles       a processor or an aggregator that consists of them
"""

from typing import Final

KEY_BYTES: Final = 1024
"""What a key counts for, besides what its component reports as `held_bytes`."""
