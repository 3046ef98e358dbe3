"""Keys and channels: a limit per key, and no channel for a revoked key."""

from __future__ import annotations

from typing import Any

import pytest
from asgi_client import Gated, within
from keyed_server import Keyed
from websocket_client import START, Socket

from torvyn.engine import Scripted
from torvyn.transport.access.key_file import edit
from torvyn.transport.access.key_record import parse_record
from torvyn.transport.multiplex.open_channels import SPARE


def opened(keyed: Keyed, name: str, **scope: Any) -> Socket:
    headers = {"authorization": f"Bearer {keyed.keys[name]}"}
    return Socket(keyed.application, headers, **scope)


def rewrite(keyed: Keyed, name: str, **fields: Any) -> None:
    """As somebody does who edits the file."""
    with edit(keyed.path) as file:
        held = {field: getattr(file.keys[name], field) for field in ("hash", "tenant", "created")}
        file.keys[name] = parse_record({"name": name, **held, **fields})


async def test_an_idle_socket_of_a_revoked_key_is_closed(keyed: Keyed) -> None:
    keyed.add("web")
    keyed.serve(Scripted("a"))
    async with opened(keyed, "web") as socket, opened(keyed, "first") as other:
        keyed.revoke("web")
        keyed.look()
        await within(socket.task)

        assert (socket.sent[-1]["type"], socket.sent[-1]["code"]) == ("websocket.close", 1008)
        assert not other.task.done()


async def test_a_stream_of_a_revoked_key_gets_the_reason_before_its_socket_is_closed(
    keyed: Keyed,
) -> None:
    keyed.add("web")
    keyed.serve(Gated())
    async with opened(keyed, "web") as socket:
        socket.say(START)
        await socket.until_got("start")
        keyed.revoke("web")
        keyed.look()
        await within(socket.task)

        assert [said["type"] for said in socket.got[-2:]] == ["error", "end"]
        assert socket.sent[-1]["code"] == 1008


async def test_a_key_holds_no_more_sockets_than_it_may_use(keyed: Keyed) -> None:
    keyed.add("one", max_streams=1)
    keyed.serve(Scripted("a"))
    sockets = [await opened(keyed, "one").__aenter__() for _ in range(1 + SPARE)]
    refused = await opened(keyed, "one").__aenter__()
    async with opened(keyed, "first") as other:
        assert other.sent[0]["type"] == "websocket.accept"
    for socket in (*sockets, refused):
        await socket.__aexit__()

    assert refused.sent[0]["reason"] == "transport.key-busy"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"max_streams": 1}, "transport.key-busy"),
        ({"expires": "2020-01-01T00:00:00+00:00"}, "transport.key-revoked"),
        ({"tenant": "other"}, "transport.key-revoked"),
    ],
)
async def test_what_is_changed_of_a_key_holds_for_its_open_sockets(
    keyed: Keyed, fields: dict[str, Any], code: str
) -> None:
    keyed.add("web", max_streams=5)
    application = keyed.serve(Gated())
    async with opened(keyed, "web") as socket:
        socket.say(START)
        await socket.until_got("start")
        rewrite(keyed, "web", **fields)
        keyed.clock.advance(2)
        application.authenticator.refresh()
        socket.say(START, stream_id="t")

        assert (await socket.until_got("refused", "t"))["code"] == code
