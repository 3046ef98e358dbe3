"""`sqlite`: rows in transactions, each once, and a position that survives a restart."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import torvyn
from torvyn import Element, Fatal, InvalidInput, Unavailable
from torvyn._contract.element import Context
from torvyn._contract.signals import Pending
from torvyn.components import SQLiteSink, SQLiteSource
from torvyn.errors import ContractError
from torvyn.testing import ScriptedSource


@pytest.fixture
def path(tmp_path):
    return tmp_path / "data.db"


@pytest.fixture
def sink(start, path):
    return lambda **config: start(SQLiteSink, {"path": str(path), **config})


@pytest.fixture
def source(start, path):
    def started(state=None, **config):
        source = start(SQLiteSource, {"path": str(path), **config})
        source.restore(json.loads(json.dumps(state)))
        return source

    return started


def sql(path, text):
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        return database.execute(text).fetchall()


def batch(*records):
    return [Element(json.dumps(record)) for record in records]


def rows(source):
    found = []
    while not isinstance(output := source.pull(), Pending | None):
        found.append(json.loads(output.data))
    return found


def test_a_table_is_created_from_the_first_object(sink, path):
    sink().push_batch(batch({"n": 1, "x": 1.5, "tags": ["a"], "ok": True}, {"n": 2}))
    assert sql(path, "SELECT * FROM elements") == [(1, 1.5, '["a"]', 1), (2, None, None, None)]
    assert [row[2] for row in sql(path, "PRAGMA table_info(elements)")] == [
        "INTEGER",
        "REAL",
        "TEXT",
        "INTEGER",
    ]


def test_rows_go_into_a_table_that_is_there(sink, path):
    sql(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, n)")
    sink(table="t").push_batch(batch({"n": 5}, {"n": 6}))
    assert sql(path, "SELECT * FROM t") == [(1, 5), (2, 6)]


def test_names_are_quoted_and_may_be_paths(sink, path):
    name = 'a "b"; DROP TABLE x'
    sink(table=name, columns=["device.id", "select"]).push(
        Element('{"device": {"id": 7}, "select": 1}')
    )
    quoted = name.replace('"', '""')
    assert sql(path, f'SELECT "device.id", "select" FROM "{quoted}"') == [(7, 1)]


def test_an_element_that_is_delivered_again_is_stored_once(sink, path):
    elements = batch({"id": 1, "v": "a"}, {"id": 2, "v": "b"})
    sink(key=["id"]).push_batch(elements)
    sink(key=["id"]).push_batch([*elements, *batch({"id": 1, "v": "new"}, {"id": 3, "v": "c"})])
    assert sql(path, "SELECT * FROM elements") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_key_may_update_what_is_stored(sink, path):
    sink(key=["id"], on_conflict="update").push_batch(batch({"id": 1, "v": 1}, {"id": 1, "v": 2}))
    assert sql(path, "SELECT * FROM elements") == [(1, 2)]


def numbered(epoch, *sequences):
    context = Context("run", "main", "trace", epoch=epoch)
    return [
        Element(f'{{"n": {sequence}}}', sequence=sequence, context=context)
        for sequence in sequences
    ]


def test_an_element_is_stored_once_by_its_number_in_the_flow(sink, path):
    sink(once=True).push_batch(numbered("a", 0, 1, 2))
    sink(once=True).push_batch(numbered("a", 1, 2, 3))
    sink(once=True).push_batch(numbered("b", 0))
    sink(once=True, table="other").push_batch(numbered("a", 0))
    assert sql(path, "SELECT n FROM elements") == [(0,), (1,), (2,), (3,), (0,)]
    assert sql(path, "SELECT n FROM other") == [(0,)]


def test_a_number_is_not_noted_for_an_element_that_was_not_stored(sink, path):
    sql(path, "CREATE TABLE elements (n CHECK (n < 2))")
    answer = sink(once=True).push_batch(numbered("a", 1, 2))
    assert [error is not None for error in answer] == [False, True]
    sql(path, "DROP TABLE elements")
    sink(once=True).push_batch(numbered("a", 1, 2))
    assert sql(path, "SELECT n FROM elements") == [(2,)]


def test_once_needs_a_flow_that_numbers_its_elements_across_runs(sink):
    with pytest.raises(Fatal, match="keep their numbers"):
        sink(once=True).push(Element('{"n": 1}'))


@pytest.mark.parametrize("bad", ['{"v": 1}', '{"id": 2, "other": 1}', f'{{"id": {2**70}}}', "[]"])
def test_a_bad_element_does_not_keep_its_batch_from_being_stored(sink, path, bad):
    sql(path, "CREATE TABLE elements (id, v)")
    good = batch({"id": 1}, {"id": 2}, {"id": 3})
    answer = sink(key=["id"]).push_batch([*good[:2], Element(bad), good[2]])
    assert [type(error) for error in answer] == [type(None), type(None), InvalidInput, type(None)]
    assert sql(path, "SELECT id FROM elements") == [(1,), (2,), (3,)]


def test_a_column_that_the_table_lacks_is_named(sink, path):
    sql(path, "CREATE TABLE elements (id)")
    with pytest.raises(Unavailable, match="no column 'v'"):
        sink(columns=["id", "v"], on_disconnect="fail").push(Element("{}"))


@pytest.mark.parametrize("config", [{"table": ""}, {"columns": ["a"], "key": ["b"]}])
def test_a_wrong_config_is_rejected(sink, config):
    with pytest.raises(ContractError):
        sink(**config)


def test_a_file_that_is_not_a_database_is_rejected(sink, source, path):
    path.write_text("this is not a database, and it is long enough" * 100)
    with pytest.raises(Unavailable, match="file is not a database"):
        sink()
    with pytest.raises(Unavailable, match="file is not a database"):
        source().pull()


def test_a_locked_database_is_waited_for(sink, path):
    waiting = sink(busy_timeout="1ms")
    waiting._retry._backoff._random = lambda: 0.001
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        pusher = threading.Thread(target=waiting.push, args=(Element('{"n": 1}'),), daemon=True)
        pusher.start()
        while waiting.connection.status.reason is None:
            assert pusher.is_alive()
        assert waiting.connection.status.reason == "database is locked"
        other.execute("COMMIT")
        pusher.join(20)
    assert sql(path, "SELECT * FROM elements") == [(1,)]
    assert waiting.connection.is_connected


def test_a_locked_database_may_be_an_error(sink, path):
    failing = sink(busy_timeout="1ms", on_disconnect="fail")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match="database is locked"):
            failing.push(Element('{"n": 1}'))


def test_a_flow_that_ends_does_not_wait_for_a_locked_database(path):
    locked = SQLiteSink({"path": str(path), "busy_timeout": "1ms"})
    flow = torvyn.Flow(ScriptedSource(['{"n": 1}', '{"n": 2}']), locked)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("BEGIN EXCLUSIVE")
        handle = flow.start()
        while not getattr(locked, "connection", None) or not locked.connection.status.reason:
            pass
        handle.cancel()
        handle.wait()
    assert sql(path, "SELECT name FROM sqlite_master") == []


def test_rows_are_read_in_the_order_of_the_column(source, path):
    sql(path, "CREATE TABLE elements AS SELECT 3 AS t, 'c' AS v UNION ALL SELECT 1, 'a'")
    assert rows(source(column="t", follow=False)) == [{"t": 1, "v": "a"}, {"t": 3, "v": "c"}]


def test_new_rows_follow_also_with_an_equal_time(source, path):
    sql(path, "CREATE TABLE elements AS SELECT 1 AS t, x'ff' AS v")
    reader = source(column="t", columns=["v"])
    assert rows(reader) == [{"v": "/w=="}]
    sql(path, "INSERT INTO elements VALUES (1, 'same time'), (2, 'later')")
    assert rows(reader) == [{"v": "same time"}, {"v": "later"}]


def test_it_may_start_at_the_end(source, path):
    sql(path, "CREATE TABLE elements AS SELECT 1 AS n")
    reader = source(start="end")
    assert rows(reader) == []
    sql(path, "INSERT INTO elements VALUES (2)")
    assert rows(reader) == [{"n": 2}]


def test_a_database_and_a_table_may_appear_later(source, path):
    reader = source()
    assert isinstance(reader.pull(), Pending)
    assert "unable to open" in reader.connection.status.reason
    sql(path, "CREATE TABLE other (n)")
    assert isinstance(reader.pull(), Pending)
    assert reader.connection.status.reason == "there is no table elements"
    sql(path, "CREATE TABLE elements AS SELECT 1 AS n")
    assert rows(reader) == [{"n": 1}]


def test_a_missing_database_may_be_an_error(source):
    with pytest.raises(Unavailable):
        source(on_disconnect="fail").pull()


@pytest.mark.parametrize(
    "kind", ["TABLE elements (id INTEGER PRIMARY KEY) WITHOUT ROWID", "TABLE elements (id)"]
)
def test_after_a_restart_every_row_is_read_once(source, path, kind):
    sql(path, f"CREATE {kind}")
    sql(path, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 600) "
        "INSERT INTO elements SELECT i FROM n")  # fmt: skip
    seen, state = [], None
    for _ in range(7):
        reader = source(state, column="id", follow=False)
        seen += [json.loads(reader.pull().data)["id"] for _ in range(83)]
        state = reader.snapshot()
    seen += [row["id"] for row in rows(source(state, column="id", follow=False))]
    assert seen == list(range(1, 601))


def test_a_position_in_another_column_is_rejected(source, path):
    with pytest.raises(InvalidInput, match="in the column 'old', not 'new'"):
        source({"column": "old", "last": [1, 1]}, column="new")


COPY = """
import sys
from torvyn import Element
from torvyn.components import SQLiteSink as SQLite
sink = SQLite()
sink.init('{"path": "%s", "key": ["n"]}' % sys.argv[1])
n = 0
while True:
    sink.push_batch([Element('{"n": %d}' % i) for i in range(n, n + 10)])
    n += 10
    print(n, flush=True)
"""


def test_what_was_confirmed_survives_kill_9_and_batches_are_whole(path):
    environment = {**os.environ, "PYTHONPATH": str(Path(torvyn.__file__).parents[1])}
    for _ in range(5):
        command = [sys.executable, "-c", COPY, str(path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
            confirmed = [int(process.stdout.readline()) for _ in range(20)][-1]
            process.send_signal(signal.SIGKILL)
        stored = [n for (n,) in sql(path, "SELECT n FROM elements ORDER BY n")]
        assert len(stored) >= confirmed
        assert stored == list(range(len(stored)))
        assert len(stored) % 10 == 0
