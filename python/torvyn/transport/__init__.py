"""Transport: flows that answer requests -> answers on a wire, over HTTP and gRPC.

app          services -> an ASGI application, to serve or to mount
ServerSettings     what it listens on, and its limits
serve        the application on a socket, until a signal ends it

application  what runs, and who is answered    paths     what can be asked for
answering    routes that flows answer          about     routes about the server
exchange     one request and its answer        asked     a body -> what is asked of an engine
call         an answer that is being made      stream    its deltas -> chunks that are sent
wire         where an answer goes              outlet    sends over a wire, and watches it
access       whose key it is, what it may      keyfile   keys at rest, as hashes
limits       what a key has used               pacing    answers as fast as a key may have them
audit        what is written down              tls       certificates
admission    how many at a time                gate      who may ask at all: Host and Origin
meter        what is counted                   caller    who asks
histogram    how large figures were            tracing   what is told of an answer
openapi      what is offered, for programs     page      a chat in the browser
sessions     answers that are kept             resuming  routes about one stream
websocket    a socket of many streams          said      a client's message -> what it says
conversation the streams of one channel        channel   a connection that streams share
held         the conversations there are       notify    a word to the service manager
silent       connections that ask nothing      bodies    requests that come slowly
grpc_server  gRPC beside HTTP                  grpc_service  its calls
grpc_request messages -> bodies                grpc_wire     frames -> messages
grpc_status  rejections -> statuses
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn.transport.application import Application, app
    from torvyn.transport.server import serve
    from torvyn.transport.settings import ServerSettings

__all__ = ["Application", "ServerSettings", "app", "serve"]

_HOMES: Final = {
    "Application": "application",
    "app": "application",
    "serve": "server",
    "ServerSettings": "settings",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"torvyn.transport.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'torvyn.transport' has no attribute {name!r}")
