"""Clients of a server: ask, read the answer while it is made, come back when the network was cut.

with Client("http://127.0.0.1:8080") as client:
    with client.stream("Why is the sky blue?") as stream:
        for text in stream.text():
            print(text, end="", flush=True)

client    what is told once; streams for coroutines   sync      the same for `for` and threads
stream    one answer, read and steered                course    its frames, over connections
address   where the server is, key, TLS                http      requests to it
sse       a connection for each stream                channel   many streams on one connection
websocket, grpc_link    links of such channels        patience  when to try again
jitter    bursts of text, let out evenly              failure   what goes wrong, typed
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn.client.client import AsyncClient
    from torvyn.client.failures import Busy, Denied, Failed, Refused, ServerError, TooSlow
    from torvyn.client.stream import AsyncStream
    from torvyn.client.sync_client import Client, Stream

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Busy",
    "Client",
    "Denied",
    "Failed",
    "Refused",
    "ServerError",
    "Stream",
    "TooSlow",
]

_HOMES: Final = {
    "AsyncClient": "client",
    "AsyncStream": "stream",
    "Client": "sync_client",
    "Stream": "sync_client",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torvyn.client' has no attribute {name!r}")
    home = import_module(f"torvyn.client.{_HOMES.get(name, 'failures')}")
    value = globals()[name] = getattr(home, name)
    return value
