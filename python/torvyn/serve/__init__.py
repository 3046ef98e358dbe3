"""A server: services answer requests over HTTP, WebSocket and gRPC.

    Application, app  services as an ASGI application, to serve or to mount
    Server            the application on its sockets, inside an `async with` statement
    serve             the same until a signal ends it
    ServerSettings    addresses and limits

It needs no web framework, and a program that has one can mount the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach

if TYPE_CHECKING:
    from torvyn.transport.application import Application, app
    from torvyn.transport.listener.server import Server, serve
    from torvyn.transport.settings import ServerSettings

__all__ = ["Application", "Server", "ServerSettings", "app", "serve"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Application": "torvyn.transport.application",
            "app": "torvyn.transport.application",
            "Server": "torvyn.transport.listener.server",
            "serve": "torvyn.transport.listener.server",
            "ServerSettings": "torvyn.transport.settings",
        },
    )
