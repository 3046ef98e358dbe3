"""Transport: flows that answer requests -> answers on a wire, over HTTP.

app          services -> an ASGI application, to serve or to mount
Settings     what it listens on, and its limits
serve        the application on a socket, until a signal ends it

application  what runs, and who is answered    paths     what can be asked for
answering    routes that flows answer          about     routes about the server
exchange     one request and its answer        asked     a body -> what is asked of an engine
call         an answer that is being made      stream    its deltas -> chunks that are sent
wire         where an answer goes              outlet    sends over a wire, and watches it
admission    how many at a time                gate      who may ask at all: Host and Origin
meter        what is counted                   caller    who asks
histogram    how large figures were            tracing   what is told of an answer
openapi      what is offered, for programs     page      a chat in the browser
sessions     answers that are kept             resuming  routes about one stream
notify       a word to the service manager
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn.transport.application import Application, app
    from torvyn.transport.server import serve
    from torvyn.transport.settings import Settings

__all__ = ["Application", "Settings", "app", "serve"]

_HOMES: Final = {
    "Application": "application",
    "app": "application",
    "serve": "server",
    "Settings": "settings",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"torvyn.transport.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'torvyn.transport' has no attribute {name!r}")
