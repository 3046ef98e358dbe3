"""One provocation for each code of serving."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn.engine import Scripted, Service
from torvyn.errors import BugError
from torvyn.serve import ServerSettings, app
from torvyn.transport import request_body
from torvyn.transport.access.admission import Admission
from torvyn.transport.access.cors import Cors
from torvyn.transport.access.host_check import HostCheck, check_bound
from torvyn.transport.call import Call
from torvyn.transport.grpc.endpoint import method_unknown
from torvyn.transport.grpc.exchange import encoding_refused
from torvyn.transport.http.asgi_exchange import AsgiExchange
from torvyn.transport.http.body_limit import BodyBudget
from torvyn.transport.http.exchange import body_malformed, host_ambiguous
from torvyn.transport.http.json_body import parse_object
from torvyn.transport.http.routes import grpc_refused
from torvyn.transport.listener.server import Server
from torvyn.transport.listener.sockets import listen
from torvyn.transport.multiplex import client_message
from torvyn.transport.multiplex.multiplexer import MAX_STREAMS
from torvyn.transport.rejection import (
    Rejection,
    bad_message,
    client_error,
    client_stalled,
    service_unknown,
    shutting_down,
)
from torvyn.transport.services import served_plans
from torvyn.transport.websocket import endpoint
from torvyn.transport.wire import HttpWire
from torvyn.transport.workers.share import Share, check_shareable

TOML = """
[torvyn]
name = "a"
version = "0.1.0"
contract_version = "0.1.0"
[flow.main.nodes.a]
component = "timer"
config = { interval = "1s" }
[flow.main.nodes.b]
component = "null"
[[flow.main.edges]]
from = "a"
to = "b"
"""


def raises(error: Exception | None) -> None:
    assert error is not None
    raise error


def application(**settings: Any) -> Any:
    return app({"chat": Service("chat", Scripted("a"))}, ServerSettings(**settings))


def _exchange(receive: Any, method: str = "POST", path: str = "/v1/streams") -> AsgiExchange:
    scope = {"method": method, "path": path, "headers": []}
    return AsgiExchange(scope, receive, receive)


def _large(_folder: Path) -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    asyncio.run(_exchange(receive).body(ServerSettings(max_body_bytes=1000), BodyBudget(1000)))


def _slow(_folder: Path) -> None:
    async def receive() -> Any:
        await asyncio.Event().wait()

    asyncio.run(_exchange(receive).body(ServerSettings(body_timeout_s=0.01), BodyBudget(1000)))


def _busy(_folder: Path) -> None:
    async def ask() -> None:
        admission = Admission(1, 0.01)
        async with admission.slot("normal"), admission.slot("normal"):
            pass

    asyncio.run(ask())


def _deadline(_folder: Path) -> None:
    class Late(Call):
        async def run(self) -> None:
            raise NotImplementedError

    service = Service("chat", Scripted("a"), deadline_s=1.0)
    wanted = request_body.parse_torvyn({"prompt": "Hi"})
    wire = HttpWire(_exchange(None))
    late = Late(wire, wanted, "chat", service, service.generate("Hi"), ServerSettings())
    late._on_deadline()
    raises(late.failure)


def _taken(_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen(ServerSettings(port=taken.getsockname()[1]))


def _no_flow(_folder: Path) -> None:
    served_plans(ProjectLinker(parse(TOML)))


def _package_missing(_folder: Path) -> None:
    with mock.patch.dict(sys.modules, {"grpc_health": None}):
        Server(application(port=0, grpc_port=0))


def _route(exchange: AsgiExchange) -> Any:
    handler = application().router.find(exchange)
    return handler(exchange)


def _stop_unknown(_folder: Path) -> None:
    asyncio.run(_route(_exchange(None, "DELETE", "/v1/streams/req-0")))


def _instance_unknown(_folder: Path) -> None:
    asyncio.run(_route(_exchange(None, "GET", "/flows/req-0")))


def _refused(code: str, *messages: Any, **settings: Any) -> None:
    """Says that on a WebSocket and raises what comes back with that code."""

    async def speak() -> dict[str, Any]:
        found: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        incoming: asyncio.Queue[Any] = asyncio.Queue()
        incoming.put_nowait({"type": "websocket.connect"})
        for message in messages:
            incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})

        async def send(message: Any) -> None:
            reply = json.loads(message.get("text", "{}"))
            if reply.get("code") == code and not found.done():
                found.set_result(reply)

        scope = {"type": "websocket", "path": "/v1/ws", "headers": [(b"host", b"localhost")]}
        speaking = asyncio.ensure_future(slow(**settings)(scope, incoming.get, send))
        reply = await asyncio.wait_for(found, 5)
        incoming.put_nowait({"type": "websocket.disconnect"})
        await speaking
        return reply

    reply = asyncio.run(speak())
    raise Rejection(400, reply["code"], reply["message"], hint=reply.get("hint"))


def slow(**settings: Any) -> Any:
    return app({"chat": Service("chat", Scripted("a b", delay=60))}, ServerSettings(**settings))


START: Final = {"type": "start", "stream_id": "1", "prompt": "Hi"}
OTHER: Final = {**START, "stream_id": "2"}
LEAVE: Final = {"type": "cancel", "stream_id": "2"}
STARTS: Final = [{**START, "stream_id": str(number)} for number in range(MAX_STREAMS + 1)]

CASES: dict[str, Callable[[Path], object]] = {
    "transport.bad-json": lambda _: parse_object(b"{"),
    "transport.bad-message": lambda _: raises(bad_message("torvyn.v1.GenerateRequest")),
    "transport.body-malformed": lambda _: raises(body_malformed()),
    "transport.body-slow": _slow,
    "transport.body-too-large": _large,
    "transport.busy": _busy,
    "transport.cannot-listen": _taken,
    "transport.channel-full": lambda _: _refused("transport.channel-full", *STARTS),
    "transport.credit-withheld": lambda _: _refused(
        "transport.credit-withheld", {**START, "credit": 0}, write_timeout_s=0.2
    ),
    "transport.deadline": _deadline,
    "transport.encoding-refused": lambda _: raises(encoding_refused("gzip")),
    "transport.failed": lambda _: raises(client_error(BugError("cli.bug", "x"))),
    "transport.flow-unknown": lambda _: application().services.find("chta"),
    "transport.grpc-refused": lambda _: raises(grpc_refused()),
    "transport.host-ambiguous": lambda _: raises(host_ambiguous()),
    "transport.host-refused": lambda _: HostCheck().check({"host": "evil.example"}),
    "transport.instance-unknown": _instance_unknown,
    "transport.json-too-deep": lambda _: parse_object(b'{"a":' * 70 + b"1" + b"}" * 70),
    "transport.message-invalid": lambda _: client_message.kind({"type": "begin"}),
    "transport.method-refused": lambda _: _route(_exchange(None, "PUT")),
    "transport.method-unknown": lambda _: raises(method_unknown("/a.B/C")),
    "transport.no-flow": _no_flow,
    "transport.cors-invalid": lambda _: Cors(["*"]),
    "transport.origin-refused": lambda _: HostCheck().check(
        {"host": "localhost", "origin": "null"}
    ),
    "transport.package-missing": _package_missing,
    "transport.public-refused": lambda _: check_bound("0.0.0.0", False),
    "transport.request-invalid": lambda _: request_body.parse_torvyn({}),
    "transport.route-unknown": lambda _: _route(_exchange(None, path="/v2")),
    "transport.service-unknown": lambda _: raises(service_unknown("a.B")),
    "transport.shutting-down": lambda _: raises(shutting_down()),
    "transport.stateful-refused": lambda _: Share(1, 2).require_sessions(),
    "transport.workers-refused": lambda _: check_shareable(ServerSettings(session_store="s.db")),
    "transport.stream-id-taken": lambda _: _refused("transport.stream-id-taken", START, START),
    "transport.stream-left": lambda _: _refused(
        "transport.stream-left", START, OTHER, LEAVE, max_streams=1
    ),
    "transport.stream-unknown": _stop_unknown,
    "transport.unread": lambda _: raises(client_stalled(30)),
    "transport.upgrade-needed": lambda _: asyncio.run(endpoint.upgrade_required(None)),
}
