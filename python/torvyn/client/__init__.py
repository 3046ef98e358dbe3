"""Clients for a Torvyn server: read answers as they are generated, and resume lost streams.

with Client("http://127.0.0.1:8080") as client:
    with client.stream("Why is the sky blue?") as stream:
        for text in stream.text():
            print(text, end="", flush=True)

client            AsyncClient, for coroutines
sync_client       Client and Stream, for threads
stream            AsyncStream: one answer
resumable_stream  the frames of one answer over as many connections as it needs
transports        SSE, WebSocket and gRPC
address           the server's URL, the API key and TLS
retry_policy      when to try again
completion        frames to one completion
jitter_buffer     releases bursts of text evenly
paced_text        a stream's text through a jitter buffer
failures          typed errors
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn.client.client import AsyncClient
    from torvyn.client.failures import (
        AnswerFailedError,
        InternalServerError,
        InvalidRequestError,
        PermissionDeniedError,
        RequestTimeoutError,
        ServerBusyError,
        ServerError,
    )
    from torvyn.client.stream import AsyncStream
    from torvyn.client.sync_client import Client, Stream

__all__ = [
    "AnswerFailedError",
    "AsyncClient",
    "AsyncStream",
    "Client",
    "InternalServerError",
    "InvalidRequestError",
    "PermissionDeniedError",
    "RequestTimeoutError",
    "ServerBusyError",
    "ServerError",
    "Stream",
]

_MODULES: Final = {
    "AsyncClient": "client",
    "AsyncStream": "stream",
    "Client": "sync_client",
    "Stream": "sync_client",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torvyn.client' has no attribute {name!r}")
    module = import_module(f"torvyn.client.{_MODULES.get(name, 'failures')}")
    value = globals()[name] = getattr(module, name)
    return value
