"""The state of a Python component: the interface `torvyn:streaming/state` of 0.3.0."""

from __future__ import annotations

import json

from torvyn._sandbox.guest import adapter

__all__ = ["State"]

_JSON, _BYTES = b"j", b"b"
"""The first byte says whether `snapshot` returned bytes or a value that JSON can hold."""


def snapshot() -> bytes:
    state = adapter.component.snapshot()
    if isinstance(state, bytes):
        return _BYTES + state
    return _JSON + json.dumps(state, ensure_ascii=False).encode()


def restore(state: bytes) -> None:
    kind, rest = state[:1], state[1:]
    adapter.component.restore(rest if kind == _BYTES else json.loads(rest))


class State:
    def snapshot(self) -> bytes:
        return adapter.call_component(snapshot)

    def restore(self, state: bytes) -> None:
        adapter.call_component(restore, state)
