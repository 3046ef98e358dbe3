"""The streams of one channel: what is rejected, what is limited, and how they end. Over ASGI."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Endless, Gated, serving, within
from hypothesis import given, settings
from hypothesis import strategies as st
from websocket_client import START, Socket, text_of

from coroutines import virtual_time
from torvyn.engine import Scripted, Service
from torvyn.protocol import Decoder, DeltaFrame
from torvyn.serve import ServerSettings, app
from torvyn.transport.multiplex.multiplexer import MAX_STREAMS

HARD = st.text(
    st.one_of(
        st.characters(codec="utf-8"), st.sampled_from('"\\/\x00\x1f\x7f\x85\u2028\u2029\ufeff😀')
    ),
    min_size=1,
)


async def refused(application: Any, message: Any) -> dict[str, Any]:
    async with Socket(application) as socket:
        say = socket.say_raw if isinstance(message, str) else socket.say
        say(message)
        return await socket.until_got("refused")


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        ("{", "bad-json", "the message is not valid JSON"),
        ("[]", "bad-json", "not an object"),
        ("[" * 100_000, "json-too-deep", "64 levels"),
        ({}, "message-invalid", "no type"),
        ({"type": "begin"}, "message-invalid", "'begin'"),
        ({"type": ["start"]}, "message-invalid", "the unknown type"),
        ({"type": "ping", "to": 1}, "message-invalid", "`to`"),
        ({"type": "stop"}, "message-invalid", "has no `stream_id`"),
        ({"type": "stop", "stream_id": ""}, "message-invalid", "has no `stream_id`"),
        ({"type": "stop", "stream_id": "x" * 129}, "message-invalid", "has no `stream_id`"),
        ({"type": "stop", "stream_id": "s"}, "stream-unknown", "no stream"),
        ({"type": "update", "stream_id": "s"}, "message-invalid", "changes nothing"),
        ({"type": "credit", "stream_id": "s", "frames": 0}, "message-invalid", "`frames`"),
        ({"type": "credit", "stream_id": "s", "frames": True}, "message-invalid", "`frames`"),
        ({"type": "resume", "stream_id": "s"}, "message-invalid", "has no `id`"),
        ({"type": "resume", "stream_id": "s", "id": "x"}, "stream-unknown", "no stream"),
        ({"type": "observe", "stream_id": "s", "id": "x"}, "stream-unknown", "no stream"),
        ({**START, "credit": -1}, "message-invalid", "`credit`"),
        ({**START, "promt": "x"}, "request-invalid", "`promt`"),
        ({**START, "prompt": 1}, "request-invalid", "`prompt`"),
        ({**START, "flow": "other"}, "flow-unknown", "'other'"),
    ],
)
async def test_an_invalid_message_is_rejected_with_the_reason(
    message: Any, code: str, words: str
) -> None:
    said = await refused(serving(Scripted("x")), message)

    assert said["code"] == f"transport.{code}"
    assert words in said["message"]
    assert said["retryable"] is False


@pytest.mark.parametrize(
    "message",
    [
        "{",
        "[]",
        {},
        {"type": "begin"},
        *({"type": kind} for kind in ("start", "stop", "cancel", "update", "credit", "resume")),
        {"type": "update", "stream_id": "s"},
        {"type": "credit", "stream_id": "s"},
        {"type": "resume", "stream_id": "s"},
        {"type": "observe", "stream_id": "s"},
    ],
)
async def test_the_example_of_a_hint_is_a_message_that_the_socket_takes(message: Any) -> None:
    engine = Gated()
    async with Socket(serving(engine)) as socket:
        socket.say_raw(message if isinstance(message, str) else json.dumps(message))
        hint = (await socket.until_got("refused"))["hint"]
        example = json.loads(hint[hint.index("{") :])
        if example["type"] != "start":
            stream_id = "other" if "id" in example else example["stream_id"]
            socket.say({**START, "stream_id": stream_id, "stateful": "id" in example})
            start = await socket.until_got("start")
            example |= {"id": start["id"]} if "id" in example else {}
        socket.got.clear()
        socket.say(example)
        socket.say({"type": "ping"})
        await socket.until_got("pong")
        engine.tokens.put_nowait(None)
        await socket.until_got("end", example["stream_id"])

    assert "refused" not in [said["type"] for said in socket.got]


async def test_a_refusal_names_its_stream_and_harms_no_other() -> None:
    engine = Gated()
    async with Socket(serving(engine)) as socket:
        socket.say(START)
        await socket.until_got("start")
        socket.say(START)
        said = await socket.until_got("refused", "s")
        engine.tokens.put_nowait("still here")
        engine.tokens.put_nowait(None)
        await socket.until_got("end")

    assert said["code"] == "transport.stream-id-taken"
    assert text_of(socket.got) == "still here"


async def test_binary_messages_are_refused() -> None:
    async with Socket(serving(Scripted("x"))) as socket:
        socket.say_bytes(b'{"type": "ping"}')
        assert "not binary" in (await socket.until_got("refused"))["message"]


async def test_a_flood_of_starts_is_bounded() -> None:
    async with Socket(serving(Gated())) as socket:
        for number in range(MAX_STREAMS + 10):
            socket.say(START, stream_id=str(number))
        await socket.until(lambda: len(socket.got) == MAX_STREAMS + 10)

    kinds = [m["type"] for m in socket.got]
    assert kinds.count("start") == MAX_STREAMS
    codes = {m["code"] for m in socket.got if m["type"] == "refused"}
    assert codes == {"transport.channel-full"}


async def test_leaving_a_channel_ends_the_streams_that_wait_for_admission() -> None:
    application = serving(Gated(), max_streams=2)
    others = [Client(application, body=PROMPT_BODY) for _ in range(2)]
    for other in others:
        await other.until(1)
    async with Socket(application) as socket:
        socket.say(START)
        while not application.admission.waiting:
            await asyncio.sleep(0)
    assert application.admission.waiting == 0
    for other in others:
        other.leave()
        await other


async def test_a_stream_that_waits_for_a_place_can_be_cancelled() -> None:
    application = serving(Gated(), max_streams=1)
    async with Socket(application) as socket:
        socket.say(START, stream_id="runs")
        await socket.until_got("start")
        socket.say(START, stream_id="waits")
        socket.say({"type": "cancel", "stream_id": "waits"})
        said = await socket.until_got("refused", "waits")

    assert said["code"] == "transport.stream-left"
    assert application.admission.waiting == 0


async def test_an_observer_can_leave_and_the_watched_stream_goes_on() -> None:
    engine = Gated()
    async with Socket(serving(engine)) as socket:
        socket.say(START)
        id = (await socket.until_got("start", "s"))["id"]
        socket.say({"type": "observe", "stream_id": "w", "id": id})
        await socket.until_got("start", "w")
        socket.say({"type": "stop", "stream_id": "w"})
        assert (await socket.until_got("refused", "w"))["code"] == "transport.stream-left"
        engine.tokens.put_nowait("on")
        engine.tokens.put_nowait(None)
        await socket.until_got("end", "s")
    assert text_of(socket.got) == "on"


async def test_a_client_that_reads_nothing_is_cut_and_every_engine_left() -> None:
    engine = Endless()
    application = serving(engine, write_timeout_s=0.1)
    socket = Socket(application)
    async with socket:
        socket.say(START)
        await socket.until_got("delta")
        socket.may_send.clear()
        await within(engine.was_left.wait())
        await within(socket.task)
    assert not application.running.calls


@virtual_time
async def test_a_socket_on_which_something_is_always_underway_is_not_cut() -> None:
    class Narrow(Socket):
        one_at_a_time = asyncio.Lock()

        async def _send(self, message: Any) -> None:
            async with self.one_at_a_time:
                await asyncio.sleep(0.002)
                await super()._send(message)

    application = serving(Scripted("word " * 1000), write_timeout_s=0.6)
    async with Narrow(application) as socket:
        for number in range(8):
            socket.say(START, stream_id=str(number))
        # 8 streams of 1000 / 16 chunks, 2 ms each: longer than a second.
        for number in range(8):
            await socket.until_got("end", str(number))


@pytest.mark.parametrize("kind", ["stop", "cancel"])
async def test_a_stream_without_credit_can_be_ended(kind: str) -> None:
    async with Socket(serving(Endless())) as socket:
        socket.say(START, credit=1)
        await socket.until_got("delta")
        socket.say({"type": kind, "stream_id": "s"})
        await socket.until_got("end")

    seqs = [m["seq"] for m in socket.got if "seq" in m]
    assert seqs == list(range(1, len(seqs) + 1))


async def test_a_stream_without_credit_ends_alone() -> None:
    engine = Endless()
    services = {"endless": Service("e", engine), "gated": Service("g", Gated())}
    application = app(services, ServerSettings(write_timeout_s=0.5))
    async with Socket(application) as socket:
        socket.say(START, stream_id="other", flow="gated")
        socket.say(START, flow="endless", credit=2)
        error = await socket.until_got("error", "s")
        await socket.until_got("end", "s")
        assert "gated" in [call.flow for call in application.running.calls.values()]

    assert error["code"] == "transport.credit-withheld"
    assert engine.was_left.is_set()


async def test_a_kept_stream_without_credit_is_only_left() -> None:
    engine = Endless()
    application = serving(engine, write_timeout_s=0.5)
    async with Socket(application) as socket:
        socket.say(START, credit=1, stateful=True)
        said = await socket.until_got("refused", "s")
        id = (await socket.until_got("start"))["id"]
        assert said["code"] == "transport.credit-withheld"
        assert not engine.was_left.is_set()
        socket.say({"type": "resume", "stream_id": "again", "id": id, "after": "1"})
        await socket.until_got("delta", "again")
        socket.say({"type": "stop", "stream_id": "again"})
        await socket.until_got("end", "again")


async def test_what_was_read_whole_is_not_resumed() -> None:
    async with Socket(serving(Scripted("a b"))) as socket:
        socket.say(START, stateful=True)
        id = (await socket.until_got("start"))["id"]
        last = (await socket.until_got("end"))["seq"]
        socket.say({"type": "resume", "stream_id": "r", "id": id, "after": str(last)})
        assert (await socket.until_got("refused", "r"))["code"] == "session.all-read"


@pytest.mark.promise("inference.error-frames")
async def test_a_failure_before_the_start_is_refused_and_one_after_it_an_error() -> None:
    async with Socket(serving(Scripted("a b", fail_at=1))) as socket:
        socket.say(START)
        await socket.until_got("end")
    kinds = [m["type"] for m in socket.got]
    assert kinds[-2:] == ["error", "end"]


async def test_a_disconnect_from_the_server_below_ends_the_stream() -> None:
    class Torn(Socket):
        async def _send(self, message: Any) -> None:
            if len(self.sent) > 3:
                raise BrokenPipeError
            await super()._send(message)

    engine = Endless()
    async with Torn(serving(engine)) as socket:
        socket.say(START)
        await within(engine.was_left.wait())
        await within(socket.task)


@settings(max_examples=60, deadline=None)
@given(st.lists(HARD, min_size=1, max_size=5), HARD.filter(lambda text: len(text) <= 128))
def test_any_text_arrives_unchanged(tokens: list[str], stream_id: str) -> None:
    async def said() -> list[dict[str, Any]]:
        async with Socket(serving(Scripted(tokens))) as socket:
            socket.say(START, stream_id=stream_id)
            await socket.until_got("end", stream_id)
            return socket.sent

    sent = [m["text"] for m in asyncio.run(said()) if m["type"] == "websocket.send"]
    decoder = Decoder("torvyn", "json")
    frames = [frame for text in sent for frame in decoder.put(text.encode())]
    assert "".join(f.text for f in frames if isinstance(f, DeltaFrame)) == "".join(tokens)
    assert {json.loads(text)["stream_id"] for text in sent} == {stream_id}
