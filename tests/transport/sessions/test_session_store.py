"""The session store: every frame that a client has seen is on disk, whatever happens."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from asgi_client import Client, Gated, within
from stored_processes import STATEFUL, WORDS, begun, deltas, killed, process

from torvyn.engine import Scripted
from torvyn.errors import TorvynError
from torvyn.transport.sessions import store_file as files
from torvyn.transport.sessions.store import SessionStore
from torvyn.transport.sessions.store_file import StoredSession


async def test_frames_that_are_no_longer_kept_are_deleted_from_the_file(file: Path) -> None:
    numbers = " ".join(str(number).rjust(60) for number in range(200))
    options = {"session_bytes": 4096, "chunk_tokens": 1}
    async with process(Scripted(numbers, delay=0.0005), file, **options) as application:
        client = await begun(application, 150)
        await killed(application, client)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM frames").fetchone()[0] < 100


async def test_a_full_disk_ends_the_answer_with_an_error(file: Path) -> None:
    engine = Gated()
    async with process(engine, file) as application:
        client = Client(application, body=STATEFUL)
        engine.tokens.put_nowait("one ")
        await client.until(2)
        store = application.sessions._file
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


async def test_a_file_of_the_first_version_is_converted(file: Path) -> None:
    async with process(Scripted(WORDS), file) as application:
        client = await Client(application, body=STATEFUL)
    with closing(sqlite3.connect(file)) as db:
        db.execute("ALTER TABLE sessions DROP COLUMN stopped")
        db.execute("PRAGMA user_version = 1")
    async with process(Scripted(WORDS), file) as application:
        path = f"/v1/streams/{client.frames_start_id()}"
        again = await Client(application, path, method="GET")
    assert "".join(text for _, text in deltas(again)) == WORDS
    assert again.frames()[-1].finish[0].reason == "stop"


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
    async with process(Scripted(WORDS.split(), delay=0.001), file) as first:
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
    async with process(Scripted(WORDS.split(), delay=0.001), file) as first:
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
        store = second.sessions._file
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
