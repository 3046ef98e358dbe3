"""`tail`: every line once and whole, through rotation, truncation and restarts."""

import json
import os
import random

import pytest

import torvyn
from torvyn import InvalidInput
from torvyn._contract.signals import PENDING, Pending
from torvyn.components import Tail
from torvyn.components.line_format import LineSplitter
from torvyn.errors import ContractError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "app.log"


@pytest.fixture
def tail(start, path):
    def started(state=None, **config):
        source = start(Tail, {"path": str(path), **config})
        source.restore(json.loads(json.dumps(state)))
        return source

    return started


def lines(source):
    """What is there now. Two looks, because a rotated file is looked at once more."""
    found = []
    for _ in range(3):
        while not isinstance(line := source.pull(), Pending):
            found.append(line)
    return found


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


def test_lines_are_returned_when_they_are_complete(tail, path):
    append(path, "one\ntwo\nthr")
    source = tail()
    assert lines(source) == ["one", "two"]
    append(path, "ee\r\n")
    assert lines(source) == ["three"]


def test_a_file_that_is_missing_is_waited_for_and_its_absence_shown(tail, path):
    source = tail(start="end")
    assert lines(source) == []
    assert source.connection.status.reason == "no such file or directory"
    append(path, "first\n")
    assert lines(source) == ["first"]
    assert source.connection.is_connected


def test_it_may_start_at_the_end(tail, path):
    append(path, "old\n")
    source = tail(start="end")
    source.pull()
    append(path, "new\n")
    assert lines(source) == ["new"]


def test_it_waits_for_the_poll_interval(tail, path):
    assert repr(tail(poll="2s").pull()) == repr(PENDING.after(2.0))


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(tail, path):
    append(path, "1\n")
    source = tail()
    assert lines(source) == ["1"]
    append(path, "2\n")
    path.rename(f"{path}.1")
    append(path, "4\n")
    # The writer still holds the old file open.
    append(f"{path}.1", "3")
    assert lines(source) == ["2", "3", "4"]


def test_a_file_that_was_moved_away_is_followed_until_there_is_a_new_one(tail, path):
    append(path, "1\n")
    source = tail()
    assert lines(source) == ["1"]
    path.rename(f"{path}.1")
    append(f"{path}.1", "2\n")
    assert lines(source) == ["2"]
    append(path, "3\n")
    assert lines(source) == ["3"]


def test_a_truncated_file_is_read_from_its_beginning(tail, path):
    append(path, "long old line\n")
    source = tail()
    lines(source)
    path.write_text("new\n")
    assert lines(source) == ["new"]


def test_a_truncated_file_that_has_already_grown_longer_is_noticed(tail, path):
    append(path, "old\n")
    source = tail()
    lines(source)
    path.write_text("new one\nnew two\n")
    assert lines(source) == ["new one", "new two"]


def test_a_line_over_the_limit_is_rejected_alone(tail, path):
    append(path, "ok\n" + "x" * 200_000 + "\nafter\n")
    source = tail(max_line=1000)
    assert source.pull() == "ok"
    with pytest.raises(InvalidInput, match=r"line 2 of .*app\.log is longer than 1000 bytes"):
        source.pull()
    assert lines(source) == ["after"]


def test_json_lines_are_checked(tail, path):
    append(path, '{"a": 1}\n\nnot json\n')
    source = tail(format="jsonl")
    assert source.pull().content_type == "application/json"
    with pytest.raises(InvalidInput, match=r"line 3 of .*app\.log is not valid JSON"):
        source.pull()


@pytest.mark.parametrize("config", [{"poll": 0}, {"path": ""}, {"encoding": "utf-16"}])
def test_a_wrong_config_is_rejected(tail, config):
    with pytest.raises(ContractError):
        tail(**config)


def test_a_folder_is_waited_for_until_it_is_a_file(tail, path):
    path.mkdir()
    source = tail()
    assert lines(source) == []
    assert source.connection.status.reason == "not a regular file"


def test_after_a_restart_it_continues_behind_the_last_line(tail, path):
    append(path, "1\n2\n3\n")
    source = tail()
    assert [source.pull(), source.pull()] == ["1", "2"]
    assert lines(tail(source.snapshot())) == ["3"]


def test_files_that_were_rotated_during_the_restart_are_read_in_order(tail, path):
    append(path, "1\n2\n")
    source = tail()
    assert source.pull() == "1"
    for number, text in ((2, "3\n"), (1, "4\n")):
        path.rename(f"{path}.{number}")
        os.utime(f"{path}.{number}", (100 - number, 100 - number))
        append(path, text)
    append(f"{path}.errors", "not a rotated file\n")
    assert lines(tail(source.snapshot())) == ["2", "3", "4"]


def test_a_copy_of_a_truncated_file_is_read_to_its_end(tail, path):
    append(path, "1\n2\n3\n")
    source = tail()
    assert source.pull() == "1"
    (path.parent / "app.log-20261116").write_bytes(path.read_bytes())
    path.write_text("4\n")
    assert lines(tail(source.snapshot())) == ["2", "3", "4"]


def test_a_file_that_is_gone_is_reported_and_the_new_one_read(tail, path, caplog):
    append(path, "1\n")
    source = tail()
    lines(source)
    path.unlink()
    append(path, "2\n")
    assert lines(tail(source.snapshot())) == ["2"]
    assert "lines may be missing" in caplog.text


def test_a_restart_while_the_file_is_missing_keeps_the_position(tail, path):
    append(path, "1\n2\n")
    source = tail()
    source.pull()
    state = source.snapshot()
    path.rename(f"{path}.1")
    state = tail(state).snapshot()
    assert lines(tail(state)) == ["2"]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_to_the_file_every_line_is_read_once(tail, path, seed):
    chance, seen, written, rotations = random.Random(seed), [], 0, 0
    append(path, "")
    source = tail()
    lines(source)
    for _ in range(60):
        match chance.choice("wwwrrsx"):
            case "w":
                written += 1
                append(path, f"{written}\n" if chance.random() < 0.8 else f"{written}\r\n")
            case "r":
                seen += lines(source)
            case "s":
                source = tail(source.snapshot())
            case "x" if path.exists():
                rotations += 1
                path.rename(f"{path}.{rotations}")
                append(path, "")
                source = tail(source.snapshot())
    for _ in range(rotations + 1):
        seen += lines(source)
    assert seen == [str(number) for number in range(1, written + 1)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_do_not_depend_on_how_the_bytes_arrive(size):
    data = b"a\r\n\n" + b"x" * 12 + b"\nlast\r"
    splitter, found = LineSplitter(10), []
    for start in range(0, len(data), size):
        found += splitter.feed(data[start : start + size])
    found.append(splitter.flush())
    assert [line.data for line in found] == [b"a", b"", None, b"last"]
    assert sum(line.size_bytes for line in found) == len(data)


def test_a_flow_follows_a_file(path):
    append(path, "".join(f"{number}\n" for number in range(3)))
    flow = torvyn.Flow(Tail({"path": str(path), "poll": "1ms"}))
    seen = []
    for element in flow:
        seen.append(element.text)
        append(path, f"{len(seen) + 2}\n")
        if len(seen) == 6:
            break
    assert seen == ["0", "1", "2", "3", "4", "5"]
