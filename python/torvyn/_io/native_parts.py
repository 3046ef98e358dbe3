"""The parts of the native module that a build can leave out.

`make demo` builds the core, because the rest takes minutes. `from torvyn._native import Database`
raises the error of `missing` in a build without the part `disk`: the module asks here.
"""

from __future__ import annotations

from typing import Final

from torvyn.errors import MissingError

PARTS: Final = {
    "sandbox": "WebAssembly components",
    "network": "the server and the client of HTTP and gRPC",
    "disk": "data on the disk: durable edges, checkpoints, stored sessions",
    "nats": "edges that a NATS server carries",
    "cross": "compiling components for another architecture",
}
"""What each part does."""

_COMMANDS: Final = {"cross": "pip install ."}
"""What builds a part, if not `make build`."""


def built_in() -> tuple[str, ...]:
    """The parts of this build, in the order of `PARTS`."""
    from torvyn import _native

    return tuple(part for part in PARTS if part in _native.PARTS)


def require(part: str) -> None:
    """Raises `MissingError` if this build lacks the part."""
    if part not in built_in():
        raise missing(part)


def missing(part: str) -> MissingError:
    """The one error for a missing part: what cannot be done, and the command that adds it."""
    command = _COMMANDS.get(part, "make build")
    return MissingError(
        "native.part-missing",
        f"torvyn was built without its part `{part}`: {PARTS[part]}",
        hint=f"run `{command}` in the checkout of torvyn to build it",
    )
