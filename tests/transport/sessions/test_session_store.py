"""The session store: every frame that a client has seen is on disk, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within

from torvyn.engine import Engine, Scripted
from torvyn.errors import TorvynError
from torvyn.protocol import Decoder, DeltaFrame
from torvyn.transport import Application
from torvyn.transport.sessions import store_file as files
from torvyn.transport.sessions.store import SessionStore
from torvyn.transport.sessions.store_file import StoredSession

STATEFUL = {**PROMPT_BODY, "stateful": True}
WORDS = "one two three four five six seven eight nine ten"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@asynccontextmanager
async def process(engine: Engine, file: Path, **options: Any) -> AsyncIterator[Application]:
    """An application as a process has it; the next one finds what it left."""
    application = serving(engine, session_store=str(file), **options)
    try:
        yield application
    finally:
        application.sessions.close()


async def begun(application: Application, chunks: int) -> Client:
    client = Client(application, body=STATEFUL)
    await client.until(chunks)
    return client


async def killed(application: Application, *clients: Client) -> None:
    """What a kill leaves: tasks that never come to their end."""
    for client in clients:
        client.leave()
        await within(client.task)
    for session in list(application.sessions._sessions.values()):
        if session.task is not None:
            session.suspend()


def come_back(application: Application, client: Client) -> Client:
    ids = [line[4:] for line in client.body.decode().splitlines() if line.startswith("id: ")]
    path = f"/v1/streams/{client.frames_start_id()}"
    return Client(application, path, method="GET", headers={"last-event-id": ids[-1]})


def deltas(*clients: Client) -> list[tuple[int, str]]:
    frames = [frame for c in clients for frame in Decoder("torvyn", "sse").put(c.body)]
    return [(frame.seq, frame.text) for frame in frames if isinstance(frame, DeltaFrame)]


def assert_whole(*clients: Client, text: str = WORDS) -> None:
    told = deltas(*clients)
    assert [seq for seq, _ in told] == list(range(1, len(told) + 1))
    assert "".join(piece for _, piece in told) == text


def slow() -> Scripted:
    return Scripted(WORDS, delay_s=0.002)


@pytest.mark.parametrize("chunks", [1, 2, 5, 9])
async def test_another_process_goes_on_to_the_same_text(file: Path, chunks: int) -> None:
    async with process(slow(), file) as first:
        client = await begun(first, chunks)
        await killed(first, client)
    async with process(slow(), file) as second:
        again = await come_back(second, client)
    assert_whole(client, again)
    assert again.frames()[-1].usage.completion_tokens == 10


async def test_a_third_process_goes_on_too(file: Path) -> None:
    clients: list[Client] = []
    for chunks in (3, 3):
        async with process(slow(), file) as application:
            client = (
                await begun(application, 3) if not clients else come_back(application, clients[-1])
            )
            await client.until(chunks)
            clients.append(client)
            await killed(application, client)
    async with process(slow(), file) as last:
        clients.append(await come_back(last, clients[-1]))
    assert_whole(*clients)


async def test_an_ended_answer_is_replayed_as_it_was(file: Path) -> None:
    async with process(Scripted(WORDS), file) as first:
        client = await Client(first, body=STATEFUL)
    async with process(Scripted("other words"), file) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    assert again.body == client.body


async def test_an_engine_that_is_not_replayable_ends_the_session_with_an_error(file: Path) -> None:
    engine = Gated()
    async with process(engine, file) as first:
        client = Client(first, body=STATEFUL)
        engine.tokens.put_nowait("one ")
        await client.until(2)
        await killed(first, client)
    async with process(Gated(), file) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    start, delta, error, end = again.frames()
    assert (delta.text, error.code) == ("one ", "session.generation-lost")
    assert end.finish[0].reason == "error"
    assert start.id == client.frames_start_id()


@pytest.mark.parametrize("now", ["one TWO three four five six", "one"])
async def test_a_flow_that_answers_differently_now_is_not_joined_to_the_old_answer(
    file: Path, now: str
) -> None:
    async with process(slow(), file) as first:
        client = await begun(first, 5)
        await killed(first, client)
    async with process(Scripted(now), file) as second:
        again = await come_back(second, client)
    assert again.frames()[-2].code == "session.generation-lost"
    assert WORDS.startswith("".join(text for _, text in deltas(client, again)))


async def test_a_long_answer_is_kept_from_its_oldest_frame_on(file: Path) -> None:
    numbers = " ".join(str(number).rjust(60) for number in range(200))
    options = {"session_bytes": 4096, "chunk_tokens": 1}
    async with process(Scripted(numbers, delay_s=0.0005), file, **options) as first:
        client = await begun(first, 150)
        await killed(first, client)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM frames").fetchone()[0] < 100
    async with process(Scripted(numbers), file, **options) as second:
        again = come_back(second, client)
        await again
    assert_whole(client, again, text=numbers)


async def test_several_choices_go_on_each_from_its_own_place(file: Path) -> None:
    engine = lambda: Scripted(answers=["a b c d e f", "1 2 3 4 5 6"], delay_s=0.002)  # noqa: E731
    async with process(engine(), file) as first:
        client = Client(first, body={**STATEFUL, "n": 2})
        await client.until(4)
        await killed(first, client)
    async with process(engine(), file) as second:
        again = await come_back(second, client)
    texts = {0: "", 1: ""}
    for c in (client, again):
        for frame in Decoder("torvyn", "sse").put(c.body):
            if isinstance(frame, DeltaFrame):
                texts[frame.index] += frame.text
    assert texts == {0: "a b c d e f", 1: "1 2 3 4 5 6"}


async def test_the_end_of_a_server_leaves_it_to_the_next(file: Path) -> None:
    async with process(slow(), file) as first:
        client = await begun(first, 3)
        await within(first.drain(0.001))
        await client
    codes = [f.code for f in client.frames() if f.__class__.__name__ == "ErrorFrame"]
    assert codes == ["transport.shutting-down"]
    async with process(slow(), file) as second:
        again = await come_back(second, client)
    assert_whole(client, again)


async def test_a_full_disk_ends_the_answer_with_an_error(file: Path) -> None:
    engine = Gated()
    async with process(engine, file) as application:
        client = Client(application, body=STATEFUL)
        engine.tokens.put_nowait("one ")
        await client.until(2)
        store = application.sessions._store
        assert store is not None
        await store._do(lambda file: file.db.execute("PRAGMA max_page_count = 1"))
        engine.tokens.put_nowait("x" * 100_000)
        await within(client)
        await store._do(lambda file: file.db.execute("PRAGMA max_page_count = 1000000"))
        engine.tokens.put_nowait(None)
        freed = await Client(application, body=STATEFUL)
    assert [text for _, text in deltas(client)] == ["one "]
    assert client.frames()[-2].code == "session.store-failed"
    assert engine.was_left.is_set()
    assert freed.frames()[-1].finish[0].reason == "stop"


async def test_the_file_is_readable_by_its_owner_alone(file: Path) -> None:
    async with process(Scripted(WORDS), file) as application:
        await Client(application, body=STATEFUL)
    for path in file.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name


async def test_a_file_that_others_could_read_is_closed_to_them(file: Path) -> None:
    file.touch(0o644)
    file.chmod(0o644)
    async with process(Scripted(WORDS), file) as application:
        await Client(application, body=STATEFUL)
        assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}


async def test_a_file_that_is_no_database_is_set_aside(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_bytes(b"not a database at all" * 100)
    with caplog.at_level(logging.ERROR):
        async with process(Scripted(WORDS), file) as application:
            client = await Client(application, body=STATEFUL)
    assert client.status == 200
    assert file.with_name("sessions.db.damaged").read_bytes().startswith(b"not a database")
    assert "damaged" in caplog.text


async def test_frames_with_a_flipped_bit_are_not_sent(file: Path) -> None:
    async with process(Scripted(WORDS.split(), delay_s=0.001), file) as first:
        client = await Client(first, body=STATEFUL)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE frames SET data = CAST(replace(data, 'five', 'fife') AS BLOB)")
    async with process(Scripted(WORDS.split()), file) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    assert "".join(text for _, text in deltas(again)) == WORDS.replace(" ", "")


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_torn_tail_costs_what_was_torn_and_no_more(file: Path, share: float) -> None:
    copy = file.with_name("torn.db")
    async with process(Scripted(WORDS.split(), delay_s=0.001), file) as first:
        client = await Client(first, body=STATEFUL)
        for ending in ("", "-wal"):
            data = Path(f"{file}{ending}").read_bytes()
            kept = int(len(data) * share) if ending else len(data)
            Path(f"{copy}{ending}").write_bytes(data[:kept])
    async with process(Scripted(WORDS.split()), copy) as second:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(second, path, method="GET")
    if again.status == 200:
        assert "".join(text for _, text in deltas(again)) == WORDS.replace(" ", "")
    else:
        assert again.status == 404


async def test_two_servers_do_not_share_a_file(file: Path) -> None:
    async with process(Scripted(WORDS), file) as first:
        await Client(first, body=STATEFUL)
        with pytest.raises(TorvynError) as caught:
            SessionStore(file).open()
    assert caught.value.code == "session.cannot-open"


async def test_sessions_that_no_client_resumes_are_deleted_from_the_file(file: Path) -> None:
    async with process(Scripted(WORDS), file) as first:
        client = await Client(first, body=STATEFUL)
    async with process(Scripted(WORDS), file, session_ttl_s=0.05) as second:
        await Client(second, body=STATEFUL)
        store = second.sessions._store
        assert store is not None
        while await store.ids():
            await asyncio.sleep(0.01)
        assert await store.load(client.frames_start_id()) is None


async def test_a_commit_holds_what_came_while_the_last_was_written(file: Path) -> None:
    store = SessionStore(file)
    row = {"tenant": "", "caller": "", "flow": "chat", "epoch": "e", "request": "{}"}
    begins = [store.begin(StoredSession(id=str(number), **row)) for number in range(500)]
    await within(asyncio.gather(*begins))
    ids = await store.ids()
    store.close()
    assert len(ids) == 500


def test_a_file_of_a_later_version_is_left_alone(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {files.VERSION + 1}")
    with pytest.raises(TorvynError, match="later version"):
        SessionStore(file).open()
