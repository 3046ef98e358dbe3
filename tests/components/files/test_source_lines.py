"""`lines`: one element per line, errors for invalid lines, and reads that block no other flow."""

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import torvyn
from torvyn import InvalidInput
from torvyn.components import Lines
from torvyn.errors import ContractError, MissingError


def started(config):
    lines = Lines()
    lines.init(config)
    return lines


def drain(source):
    return list(iter(source.pull, None))


@pytest.fixture
def written(tmp_path):
    def write(data):
        path = tmp_path / "in.txt"
        path.write_bytes(data)
        return str(path)

    return write


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb", ["a", "b"]),
        (b"\n\n", ["", ""]),
        ("ä\u2028b\n".encode(), ["ä\u2028b"]),
        (b"\x00\n", ["\x00"]),
    ],
)
def test_a_file_is_read_line_by_line(written, data, lines):
    assert drain(started(written(data))) == lines


def test_after_the_end_it_stays_at_the_end(written):
    source = started(written(b"a\n"))
    assert [source.pull(), source.pull(), source.pull()] == ["a", None, None]


def test_a_bad_line_is_named_and_the_next_one_follows(written):
    source = started(written(b"good\n\xff\xfe\nagain\n"))
    assert source.pull() == "good"
    with pytest.raises(InvalidInput, match=r"line 2 of .*in\.txt is not valid utf-8: .* at byte 0"):
        source.pull()
    assert drain(source) == ["again"]


def test_bad_bytes_can_be_replaced(written):
    path = written(b"a\xffb\n")
    assert drain(started({"path": path, "errors": "replace"})) == ["a\ufffdb"]


def test_other_encodings_are_read(written):
    path = written("Größe\n".encode("latin-1"))
    assert drain(started({"path": path, "encoding": "latin-1"})) == ["Größe"]


def test_a_byte_order_mark_is_left_out_when_asked_for(written):
    path = written("\ufeffa\n\ufeffb\n".encode())
    assert drain(started({"path": path, "encoding": "utf-8-sig"})) == ["a", "\ufeffb"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "klingon", "rot13"])
def test_an_encoding_without_newline_bytes_is_refused(written, encoding):
    with pytest.raises(ContractError):
        started({"path": written(b""), "encoding": encoding})


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_over_the_limit_is_refused_alone(written, end):
    source = started(
        {"path": written(b"12345" + end + b"1" * 99 + end + b"12" + end), "max_line": 5}
    )
    assert source.pull() == "12345"
    with pytest.raises(InvalidInput, match=r"line 2 of .* is longer than 5 bytes"):
        source.pull()
    assert drain(source) == ["12"]


def test_a_missing_file_names_a_near_one(tmp_path):
    (tmp_path / "data.txt").write_text("")
    with pytest.raises(MissingError) as caught:
        started(str(tmp_path / "dta.txt"))
    assert caught.value.code == "components.file-missing"
    assert "data.txt?" in caught.value.hint


def test_a_missing_file_says_where_relative_paths_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingError) as caught:
        started("absent.txt")
    assert caught.value.hint == f"relative paths start from {os.getcwd()}"
    with pytest.raises(MissingError) as caught:
        started(str(tmp_path / "absent.txt"))
    assert caught.value.hint is None


def test_a_missing_folder_is_named_too(tmp_path):
    with pytest.raises(MissingError) as caught:
        started(str(tmp_path / "no" / "in.txt"))
    assert caught.value.hint == f"the folder {tmp_path / 'no'} does not exist either"


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(MissingError, match="is a directory"):
        started(str(tmp_path))


@pytest.mark.parametrize(
    "stream", [io.StringIO("a\nb"), io.TextIOWrapper(io.BytesIO(b"a\nb"), encoding="utf-8")]
)
def test_without_a_path_it_reads_standard_input(monkeypatch, stream):
    monkeypatch.setattr(sys, "stdin", stream)
    source = started("")
    assert drain(source) == ["a", "b"]
    source.teardown()
    assert not stream.closed


def test_closed_standard_input_is_an_empty_one(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert drain(started("")) == []


def test_teardown_before_init_and_twice_is_harmless(written):
    Lines().teardown()
    source = started(written(b"a\n"))
    source.teardown()
    source.teardown()
    assert source.pull() is None


def test_teardown_does_not_wait_for_a_blocked_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR)
    source = started(str(path))
    pulled = []
    reader = threading.Thread(target=lambda: pulled.extend([source.pull(), source.pull()]))
    os.write(keep, b"first\n")
    reader.start()
    source.teardown()
    os.write(keep, b"second\n")
    reader.join(10)
    os.close(keep)
    assert not reader.is_alive()
    assert pulled[-1] is None


def python(program, **options):
    paths = {"PYTHONPATH": str(Path(torvyn.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, **paths}, text=True, **options
    )


BLOCKED = """
import threading
from torvyn.components import Lines
source, seen = Lines(), threading.Event()
source.init("")
def read():
    print(source.pull(), flush=True)
    seen.set()
    source.pull()
threading.Thread(target=read, daemon=True).start()
seen.wait()
"""


def test_a_line_is_delivered_while_the_pipe_stays_open_and_a_blocked_read_does_not_spoil_the_exit():
    pipe = subprocess.PIPE
    with python(BLOCKED, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        process.stdin.write("one\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == "one\n"
        assert process.stderr.read() == ""


def test_json_lines_are_checked_and_empty_ones_are_skipped(written):
    source = started({"path": written(b'{"a": 1}\n\n{"a":\n[2]\n'), "format": "jsonl"})
    assert source.pull().content_type == "application/json"
    with pytest.raises(InvalidInput, match=r"line 3 of .*in\.txt is not valid JSON"):
        source.pull()
    assert source.pull().data == "[2]"
    assert source.pull() is None


@pytest.mark.parametrize("before", range(5))
def test_after_a_restart_it_continues_behind_the_last_line(written, before):
    path = written("ä\r\n\nlong line\nlast".encode())
    source, expected = started(path), drain(started(path))
    assert [source.pull() for _ in range(before)] == [*expected, None][:before]
    state = source.snapshot()
    again = started(path)
    again.restore(state)
    assert drain(again) == expected[before:]


def test_a_position_in_a_file_that_was_replaced_is_rejected(written):
    source = started(written(b"old\n"))
    source.pull()
    state = source.snapshot()
    with pytest.raises(InvalidInput, match="is not the file"):
        started(written(b"new\n")).restore(state)


def test_standard_input_has_no_position(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n"))
    assert started("").snapshot() is None
