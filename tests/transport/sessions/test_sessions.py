"""Sessions outlive their connection, and a client that resumes misses nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgi_client import PATIENCE_S, PROMPT_BODY, Client, Endless, Gated, serving, within
from hypothesis import given, settings
from hypothesis import strategies as st

from torvyn.engine import Scripted
from torvyn.protocol import Decoder, DeltaFrame, EndFrame, ErrorFrame, StartFrame
from torvyn.serve import Application
from torvyn.transport.access.caller import Caller

STATEFUL = {**PROMPT_BODY, "stateful": True}
WORDS = "one two three four five six seven eight nine ten"


async def begun(engine: Gated, *tokens: str, **options: Any) -> tuple[Application, Client]:
    """A stateful answer that has said so much, and its client."""
    application = serving(engine, **options)
    client = Client(application, body=STATEFUL)
    for token in tokens:
        engine.tokens.put_nowait(token)
        await client.until(2 + tokens.index(token))
    await within(engine.has_begun.wait())
    return application, client


def resumed(application: Application, id: str, after: str | None = None, **more: Any) -> Client:
    headers = {"last-event-id": after} if after is not None else {}
    path = f"/v1/streams/{id}"
    return Client(
        application, path, method="GET", headers=headers | more.pop("headers", {}), **more
    )


def last_id(client: Client) -> str:
    lines = client.body.decode().splitlines()
    return [line[4:] for line in lines if line.startswith("id: ")][-1]


def text_of(*clients: Client) -> str:
    """What clients one after the other were told, each frame once."""
    seen: dict[int, str] = {}
    for client in clients:
        for frame in Decoder("torvyn", "sse").put(client.body):
            if isinstance(frame, DeltaFrame):
                assert frame.seq not in seen, "told twice"
                seen[frame.seq] = frame.text
    assert sorted(seen) == list(range(1, len(seen) + 1)), "frames are missing"
    return "".join(seen[seq] for seq in sorted(seen))


async def left(client: Client) -> None:
    client.leave()
    await within(client.task)


async def test_an_answer_goes_on_while_its_client_is_away() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ", "two ")
    id = client.frames_start_id()
    await left(client)
    assert not engine.was_left.is_set()
    engine.tokens.put_nowait("three")
    engine.tokens.put_nowait(None)

    again = await resumed(application, id, last_id(client))

    assert text_of(client, again) == "one two three"
    assert isinstance(again.frames()[0], StartFrame)
    assert again.frames()[-1].finish[0].reason == "stop"


async def test_a_client_that_resumes_early_gets_the_rest_as_it_is_generated() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ")
    await left(client)
    again = resumed(application, client.frames_start_id(), last_id(client))
    await again.until(1)
    engine.tokens.put_nowait("two")
    engine.tokens.put_nowait(None)
    assert text_of(client, await again) == "one two"


async def test_without_an_event_id_a_session_is_sent_from_the_start() -> None:
    application = serving(Scripted(WORDS))
    client = await Client(application, body=STATEFUL)
    again = await resumed(application, client.frames_start_id())
    assert again.body == client.body
    lines = resumed(
        application, client.frames_start_id(), headers={"accept": "application/x-ndjson"}
    )
    assert (await lines).frames(framing="lines") == client.frames()


@pytest.mark.promise("inference.resume")
@given(st.integers(0, 11))
@settings(deadline=None, max_examples=12)
def test_a_client_can_resume_after_every_frame(after: int) -> None:
    async def run() -> None:
        application = serving(Scripted(WORDS.split()), chunk_tokens=1)
        client = await Client(application, body=STATEFUL)
        frames = client.frames()
        epoch = last_id(client).partition("-")[0]
        again = await resumed(application, frames[0].id, f"{epoch}-{after}")
        if after == frames[-1].seq:
            assert (again.status, again.body) == (204, b"")
        else:
            assert again.frames() == [frames[0], *frames[after + 1 :]]

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


class EventSource:
    """What a browser does: it keeps the last id, and comes back with it when it is cut off."""

    def __init__(self) -> None:
        self.id = ""
        self.after: str | None = None
        self.text = ""
        self.is_over = False

    def read(self, body: bytes, events: int) -> None:
        """So many events; then the connection is lost."""
        for event in body.decode().split("\n\n")[:events]:
            data = dict(line.split(": ", 1) for line in event.splitlines() if line[:1] != ":")
            self.after = data.get("id", self.after)
            frame = json.loads(data.get("data", "{}"))
            self.id = frame.get("id", self.id)
            self.text += frame.get("text", "")
            self.is_over |= frame.get("type") == "end"


@pytest.mark.promise("inference.resume")
@given(st.lists(st.integers(1, 6), max_size=12))
@settings(deadline=None, max_examples=30)
def test_an_event_source_gets_each_word_once_however_often_it_is_cut_off(cuts: list[int]) -> None:
    async def run() -> None:
        application = serving(Scripted(WORDS.split()), chunk_tokens=1)
        source = EventSource()
        client = await Client(application, body=STATEFUL)
        for events in [*cuts, 100]:
            source.read(client.body, events)
            client = await resumed(application, source.id, source.after)
        assert (source.is_over, source.text) == (True, "".join(WORDS.split()))
        assert client.status == 204

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


@pytest.mark.promise("inference.resume")
@pytest.mark.parametrize(
    ("after", "status", "code"),
    [
        ("ffffffff-1", 410, "session.epoch-old"),
        ("99", 410, "session.frames-gone"),
        ("x", 400, "session.bad-id"),
        ("-", 410, "session.epoch-old"),
        ("1" * 30, 400, "session.bad-id"),
        ("١", 400, "session.bad-id"),
    ],
)
async def test_an_event_id_that_leads_nowhere_is_refused(
    after: str, status: int, code: str
) -> None:
    application = serving(Scripted(WORDS))
    client = await Client(application, body=STATEFUL)
    path = f"/v1/streams/{client.frames_start_id()}"
    again = await Client(
        application, path, method="GET", query={"after": after.encode().decode("latin-1")}
    )
    assert (again.status, again.json["error"]["code"]) == (status, code)


@pytest.mark.promise("inference.stateless")
async def test_an_answer_that_is_not_stateful_cannot_be_resumed() -> None:
    engine = Gated()
    application = serving(engine)
    client = Client(application, body=PROMPT_BODY)
    await client.until(1)
    again = await resumed(application, client.frames_start_id())
    assert (again.status, again.json["error"]["code"]) == (404, "transport.stream-unknown")
    assert "only `stateful` streams are kept" in again.json["error"]["hint"]
    await left(client)
    await within(engine.was_left.wait())


async def test_another_tenant_learns_nothing() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ")
    id = client.frames_start_id()
    session = await application.sessions.find(id, Caller())
    session.caller = application.running.calls[id].wire.caller = Caller(tenant="theirs")
    assert (await resumed(application, id)).status == 404
    assert (await resumed(application, id, query={"observe": "1"})).status == 404
    await left(client)


@pytest.mark.promise("inference.observers")
async def test_a_newer_connection_takes_over() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ")
    again = resumed(application, client.frames_start_id(), last_id(client))
    await client
    codes = [f.code for f in client.frames() if isinstance(f, ErrorFrame)]
    assert codes == ["session.taken-over"]
    engine.tokens.put_nowait(None)
    assert (await again).frames()[-1].finish[0].reason == "stop"


@pytest.mark.promise("inference.stateless")
async def test_a_session_that_no_client_resumes_is_ended() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ", session_ttl_s=0.05)
    await left(client)
    await within(engine.was_left.wait())
    gone = await resumed(application, client.frames_start_id(), last_id(client))
    assert gone.status == 404
    assert len(application.sessions) == 0


async def test_a_client_that_is_there_keeps_it_alive() -> None:
    engine = Gated()
    _, client = await begun(engine, "one ", session_ttl_s=0.02)
    await asyncio.sleep(0.1)
    engine.tokens.put_nowait("two")
    engine.tokens.put_nowait(None)
    assert text_of(await client) == "one two"


async def test_an_endless_answer_waits_for_its_client() -> None:
    engine = Endless()
    application = serving(engine, session_bytes=64 * 1024)
    client = Client(application, body=STATEFUL)
    await client.until(3)
    await left(client)
    made = -1
    while made != engine.made:
        made = engine.made
        await asyncio.sleep(0.02)
    session = application.sessions.get(client.frames_start_id(), Caller())
    assert session is not None
    assert session.buffer.bytes_from(0) <= 64 * 1024
    again = resumed(application, client.frames_start_id(), last_id(client))
    await again.until(20)
    assert "".join(set(text_of(client, again))) == "x"
    await left(again)


@pytest.mark.parametrize(
    ("query", "reason", "by"), [({}, "stop", "client"), ({"cancel": "1"}, "cancelled", None)]
)
async def test_it_is_stopped_while_its_client_is_away(
    query: dict[str, str], reason: str, by: str | None
) -> None:
    engine = Gated()
    application, client = await begun(engine, "one ")
    id = client.frames_start_id()
    await left(client)
    stopped = await Client(application, f"/v1/streams/{id}", method="DELETE", query=query)
    assert stopped.status == 202
    again = await resumed(application, id, last_id(client))
    finish = again.frames()[-1].finish[0]
    assert (finish.reason, finish.stopped_by) == (reason, by)


async def test_one_that_has_ended_is_forgotten_by_the_same_call() -> None:
    application = serving(Scripted(WORDS))
    client = await Client(application, body=STATEFUL)
    path = f"/v1/streams/{client.frames_start_id()}"
    assert (await Client(application, path, method="DELETE")).json["forgotten"]
    assert (await Client(application, path, method="DELETE")).status == 404


async def test_the_oldest_that_has_ended_makes_room() -> None:
    application = serving(Scripted(WORDS), max_sessions=2)
    ids = [(await Client(application, body=STATEFUL)).frames_start_id() for _ in range(3)]
    found = [(await resumed(application, id)).status for id in ids]
    assert found == [404, 200, 200]


async def test_too_many_that_run_are_refused() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ", max_sessions=1)
    other = await Client(application, body=STATEFUL)
    assert (other.status, other.headers["retry-after"]) == (429, "1")
    assert other.json["error"]["code"] == "session.too-many"
    await left(client)


async def test_a_request_that_is_refused_leaves_no_session() -> None:
    application = serving(Scripted(WORDS), max_streams=1, admission_wait_s=0.01)
    async with application.admission.slot("normal"):
        client = await Client(application, body=STATEFUL)
    assert client.status == 429
    assert len(application.sessions) == 0


async def test_a_client_that_reads_nothing_is_cut_and_the_session_is_kept() -> None:
    engine = Endless()
    application = serving(engine, write_timeout_s=0.1, session_bytes=32 * 1024)
    client = Client(application, body=STATEFUL)
    await client.until(2)
    client.may_send.clear()
    await within(client.task)
    assert not engine.was_left.is_set()
    again = resumed(application, client.frames_start_id(), last_id(client))
    await again.until(2)
    await left(again)


async def test_a_heartbeat_comes_while_the_engine_thinks() -> None:
    engine = Gated()
    _, client = await begun(engine, heartbeat_s=0.02)
    await client.until(3)
    assert b": hb\n" in client.body
    engine.tokens.put_nowait(None)
    assert isinstance((await client).frames()[-1], EndFrame)


async def test_an_engine_that_fails_without_a_client_reports_it_on_resume() -> None:
    application = serving(Scripted(WORDS, delay=0.001, fail_at=3))
    client = Client(application, body=STATEFUL)
    await client.until(2)
    await left(client)
    again = await resumed(application, client.frames_start_id(), last_id(client))
    error, end = again.frames()[-2:]
    assert error.code == "engine.scripted-failure"
    assert end.finish[0].reason == "error"


async def test_subscribers_learn_that_the_server_shuts_down() -> None:
    engine = Gated()
    application, client = await begun(engine, "one ")
    await within(application.drain(0.2))
    frames = (await client).frames()
    assert [frame.code for frame in frames if isinstance(frame, ErrorFrame)] == [
        "transport.shutting-down"
    ]
    assert isinstance(frames[-1], EndFrame)
    assert engine.was_left.is_set()


async def test_what_is_counted_shows_sessions() -> None:
    application = serving(Scripted(WORDS))
    client = await Client(application, body=STATEFUL)
    await resumed(application, client.frames_start_id())
    metrics = (await Client(application, "/metrics", method="GET")).body.decode()
    assert "torvyn_sessions 1\n" in metrics
    assert "torvyn_resumes_total 1\n" in metrics
    assert json.loads((await Client(application, "/flows", method="GET")).body)["streams"] == []
