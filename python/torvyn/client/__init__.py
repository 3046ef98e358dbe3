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
retry_policy      how often and how long to try again
completion        frames to one completion
jitter_buffer     releases bursts of text evenly
paced_text        a stream's text through a jitter buffer
failures          typed errors
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        dict.fromkeys(__all__, "torvyn.client.failures")
        | {
            "AsyncClient": "torvyn.client.client",
            "AsyncStream": "torvyn.client.stream",
            "Client": "torvyn.client.sync_client",
            "Stream": "torvyn.client.sync_client",
        },
    )
