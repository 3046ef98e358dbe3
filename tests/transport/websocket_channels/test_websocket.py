"""WebSocket with a real client and a real server: streams that share a socket."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from asgi_client import Endless, Gated
from live_server import Served, served, wait_for
from watched_engines import CEILING_S
from websocket_client import START, speaking, text_of
from websockets.exceptions import ConnectionClosed, InvalidStatus

from torvyn.engine import Scripted, Service


def put(server: Served, engine: Gated, *tokens: str | None) -> None:
    for token in tokens:
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, token)


@pytest.mark.promise("inference.transports")
def test_an_answer_starts_streams_its_text_and_ends() -> None:
    with served(Scripted("The sky is blue.")) as server, speaking(server.url) as client:
        client.say(START)
        got = client.hear_until("end")

    assert [m["type"] for m in got if m["type"] != "delta"] == ["start", "end"]
    assert {m["stream_id"] for m in got} == {"s"}
    assert text_of(got) == "The sky is blue."
    assert [m["seq"] for m in got[1:]] == list(range(1, len(got)))
    assert got[-1]["finish"] == [{"index": 0, "reason": "stop"}]
    assert got[0]["epoch"]


def test_streams_of_one_socket_go_on_side_by_side() -> None:
    one, two = Gated(), Gated()
    services = {"one": Service("one", one), "two": Service("two", two)}
    with served(services) as server, speaking(server.url) as client:
        client.say(START, stream_id="1", flow="one")
        client.say(START, stream_id="2", flow="two")
        heard = []
        for engine, stream_id in ((one, "1"), (two, "2"), (one, "1"), (two, "2")):
            put(server, engine, f"<{stream_id}>")
            heard += client.hear_until("delta", stream_id)
        put(server, two, None)
        client.hear_until("end", "2")
        put(server, one, None)
        client.hear_until("end", "1")

    assert text_of(heard, "1") == "<1><1>"
    assert text_of(heard, "2") == "<2><2>"


@pytest.mark.promise("inference.websocket-messages")
def test_a_stop_ends_well_and_a_cancellation_at_once() -> None:
    with served(Endless()) as server, speaking(server.url) as client:
        for kind, finish in (("stop", "stop"), ("cancel", "cancelled")):
            client.say(START)
            client.hear_until("delta")
            client.say({"type": kind, "stream_id": "s"})
            (ended,) = client.hear_until("end")[-1]["finish"]
            assert ended["reason"] == finish
            assert ended.get("stopped_by") == ("client" if kind == "stop" else None)


@pytest.mark.promise("inference.websocket-messages")
def test_another_limit_holds_for_what_was_not_made() -> None:
    engine = Gated()
    with served(engine) as server, speaking(server.url) as client:
        client.say(START)
        put(server, engine, "one ", "two ")
        client.hear_until("delta")
        client.say({"type": "update", "stream_id": "s", "max_tokens": 3})
        client.say({"type": "ping"})
        client.hear_until("pong")
        put(server, engine, "three ", "four ")
        got = client.hear_until("end")

    assert text_of(got).endswith("three ")
    assert got[-1]["finish"] == [{"index": 0, "reason": "length"}]


@pytest.mark.promise("inference.websocket-messages")
def test_other_stops_hold_for_what_was_not_released() -> None:
    engine = Gated()
    with served(engine) as server, speaking(server.url) as client:
        client.say(START, stop=["never"])
        put(server, engine, "a ne")
        client.hear_until("delta")
        client.say({"type": "update", "stream_id": "s", "stop": ["x"]})
        client.say({"type": "ping"})
        client.hear_until("pong")
        put(server, engine, "ver b x c")
        got = client.hear_until("end")

    assert text_of(got) == "never b "
    assert got[-1]["finish"] == [{"index": 0, "reason": "stop", "matched_stop": "x"}]


@pytest.mark.promise("inference.websocket-messages")
def test_a_stream_without_credit_waits_and_holds_up_no_other() -> None:
    with served(Scripted("word " * 200)) as server, speaking(server.url) as client:
        client.say(START, stream_id="slow", credit=0)
        assert client.hear()["type"] == "start"
        client.say(START, stream_id="quick")
        assert text_of(client.hear_until("end", "quick"), "quick") == "word " * 200
        granted = []
        for _ in range(3):
            client.say({"type": "credit", "stream_id": "slow", "frames": 1})
            granted.append(client.hear())
        client.say({"type": "credit", "stream_id": "slow", "frames": 1000})
        rest = client.hear_until("end")

    assert all(m["type"] == "delta" and m["stream_id"] == "slow" for m in granted)
    assert text_of(granted + rest, "slow") == "word " * 200


@pytest.mark.parametrize("has_spoken", [True, False])
def test_leaving_a_channel_stops_all_of_its_engines_at_once(has_spoken: bool) -> None:
    engines = [Gated(), Gated(), Gated()]
    services = {str(place): Service("chat", engine) for place, engine in enumerate(engines)}
    with served(services) as server, speaking(server.url) as client:
        for place, engine in enumerate(engines):
            client.say(START, stream_id=str(place), flow=str(place))
            wait_for(engine.has_begun.is_set)
            if has_spoken:
                put(server, engine, "a token")
                client.hear_until("delta")
        client.socket.socket.close()
        left_s = time.monotonic()
        for engine in engines:
            wait_for(engine.was_left.is_set)
        took_s = time.monotonic() - left_s
        wait_for(lambda: not server.application.running.channels)
    assert took_s < CEILING_S


def test_a_page_of_another_origin_is_refused_with_a_status() -> None:
    with served(Scripted("x")) as server:
        for options, status in (
            ({"origin": "https://elsewhere.example"}, 403),
            ({"additional_headers": {"Sec-Fetch-Site": "cross-site"}}, 403),
        ):
            with pytest.raises(InvalidStatus) as refused, speaking(server.url, **options):
                pass
            response = refused.value.response
            assert response.status_code == status
            body = json.loads(bytes(response.body or b""))
            assert body["error"]["code"] == "transport.origin-refused"


def test_a_page_of_the_server_itself_may_speak() -> None:
    with served(Scripted("x")) as server, speaking(server.url, origin=server.url) as client:
        client.say({"type": "ping"})
        assert client.hear() == {"type": "pong"}


def test_a_message_in_fragments_is_one_message_and_nothing_is_compressed() -> None:
    with served(Scripted("x")) as server, speaking(server.url) as client:
        assert client.socket.protocol.extensions == []
        client.socket.send(iter(['{"type":', '"pi', 'ng"}']))
        assert client.hear() == {"type": "pong"}


def test_a_message_that_is_too_large_closes_the_socket() -> None:
    with served(Scripted("x"), max_body_bytes=10_000) as server, speaking(server.url) as client:
        client.say(START, prompt="x" * 20_000)
        with pytest.raises(ConnectionClosed) as closed:
            client.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_a_shutdown_ends_every_stream_and_then_the_socket() -> None:
    services: dict[str, Any] = {name: Service("chat", Gated()) for name in ("a", "b")}
    with served(services, shutdown_grace_s=0.4) as server, speaking(server.url) as client:
        for name in services:
            client.say(START, stream_id=name, flow=name)
            client.hear_until("start")
        server.loop.call_soon_threadsafe(server._ending.set)
        got = [client.hear() for _ in range(4)]
        with pytest.raises(ConnectionClosed) as closed:
            client.hear()
    assert sorted((m["type"], m["stream_id"]) for m in got) == [
        ("end", "a"),
        ("end", "b"),
        ("error", "a"),
        ("error", "b"),
    ]
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


def test_a_socket_without_streams_is_closed_when_the_server_ends() -> None:
    with served(Scripted("x")) as server, speaking(server.url) as client:
        server.loop.call_soon_threadsafe(server._ending.set)
        with pytest.raises(ConnectionClosed) as closed:
            client.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1001


def test_heartbeats_come_from_before_the_first_token() -> None:
    with served(Gated(), heartbeat_s=0.05) as server, speaking(server.url) as client:
        client.say(START, stream_id="1")
        client.say(START, stream_id="2")
        got = [client.hear()]
        while [m["type"] for m in got].count("start") < 2 or got[-1]["type"] != "heartbeat":
            got.append(client.hear())

    # On a busy machine they come before the second stream, too.
    heartbeats = [m for m in got if m["type"] == "heartbeat"]
    assert len(got) - len(heartbeats) == 2
    assert all("stream_id" not in m for m in heartbeats)


def test_a_session_is_resumed_on_another_socket() -> None:
    engine = Gated()
    with served(engine) as server:
        with speaking(server.url) as client:
            client.say(START, stateful=True)
            put(server, engine, "before ")
            started, delta = client.hear_until("delta")
        with speaking(server.url) as client:
            after = f"{started['epoch']}-{delta['seq']}"
            client.say({"type": "resume", "stream_id": "r", "id": started["id"], "after": after})
            again = client.hear()
            put(server, engine, "after", None)
            got = client.hear_until("end")

    assert (again["type"], again["epoch"]) == ("start", started["epoch"])
    assert text_of(got, "r") == "after"


def test_an_observer_reads_a_stream_of_another_socket() -> None:
    engine = Gated()
    with (
        served(engine) as server,
        speaking(server.url) as client,
        speaking(server.url) as watcher,
    ):
        client.say(START)
        put(server, engine, "before ")
        started = client.hear_until("delta")[0]
        watcher.say({"type": "observe", "stream_id": "w", "id": started["id"]})
        assert watcher.hear()["type"] == "start"
        put(server, engine, "after", None)
        assert text_of(watcher.hear_until("end"), "w") == "after"
        assert client.hear_until("end")[-1]["stream_id"] == "s"


def test_a_stop_while_the_socket_is_full_loses_nothing_and_repeats_nothing() -> None:
    with served(Scripted("word " * 100_000)) as server, speaking(server.url) as client:
        for number in range(5):
            client.say(START, stream_id=str(number))
            client.hear_until("delta")
            client.say({"type": "stop", "stream_id": str(number)})
            got = client.hear_until("end")
            seqs = [m["seq"] for m in got if m["type"] != "refused"]
            assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
            assert got[-1]["usage"]["completion_tokens"] * 5 >= len(text_of(got, str(number)))


def test_a_client_that_reads_nothing_is_cut() -> None:
    engine = Endless()
    with (
        served(engine, write_timeout_s=0.5) as server,
        speaking(server.url, max_queue=1) as client,
    ):
        client.say(START)
        # It keeps a message or two and then leaves the rest in the socket.
        wait_for(engine.was_left.is_set)
        wait_for(lambda: not server.application.running.channels)
        client.socket.socket.close()
    assert engine.made < 100_000
