"""`file`: records are complete or absent, whatever the disk does."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torvyn
from torvyn import Element, End, InvalidInput, Unavailable
from torvyn.components import File
from torvyn.errors import MissingError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.txt"


def write(start, config, *elements):
    sink = start(File, config)
    for element in elements:
        assert sink.push(element) is None
    sink.complete(End())
    sink.teardown()


@pytest.mark.parametrize(("form", "data"), [("lines", b"a\n\xff\n"), ("text", b"a\xff")])
def test_payloads_are_written_as_they_are(start, path, form, data):
    write(start, {"path": str(path), "format": form}, Element("a"), Element(b"\xff"))
    assert path.read_bytes() == data


def test_it_appends_unless_told_to_truncate(start, path):
    path.write_text("old\n")
    write(start, str(path), Element("new"))
    assert path.read_text() == "old\nnew\n"
    write(start, {"path": str(path), "mode": "truncate", "fsync": True}, Element("only"))
    assert path.read_text() == "only\n"


def test_json_says_all_there_is_to_know(start, path):
    odd = Element("é\n", sequence=3, attributes={"logprob": float("-inf"), "ids": (1, 2)})
    write(start, {"path": str(path), "format": "json"}, odd, Element(b"\xff", sequence=4))
    first, second = map(json.loads, path.read_text().splitlines())
    assert first == {
        "sequence": 3,
        "content_type": "text/plain; charset=utf-8",
        "attributes": {"logprob": None, "ids": [1, 2]},
        "data": "é\n",
    }
    assert base64.b64decode(second["base64"]) == b"\xff"
    assert "data" not in second


def test_what_was_pushed_is_in_the_file_before_the_end(start, path):
    sink = start(File, str(path))
    sink.push(Element("a"))
    assert path.read_text() == "a\n"
    sink.teardown()
    sink.teardown()
    with pytest.raises(Unavailable):
        sink.push(Element("b"))


def test_a_missing_folder_is_named_with_the_way_to_make_it(start, tmp_path):
    with pytest.raises(MissingError) as caught:
        start(File, str(tmp_path / "no" / "out.txt"))
    assert caught.value.code == "components.file-missing"
    assert caught.value.hint == f"create it: mkdir -p {tmp_path / 'no'}"


def test_a_folder_cannot_be_written(start, tmp_path):
    with pytest.raises(MissingError) as caught:
        start(File, str(tmp_path))
    assert caught.value.code == "components.file-unwritable"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_unavailable_and_names_the_path(start):
    sink = start(File, "/dev/full")
    with pytest.raises(
        Unavailable, match="cannot write /dev/full: no space left on device"
    ) as caught:
        sink.push(Element("a"))
    assert "free some disk space" in caught.value.hint
    sink.teardown()


# A limit on file sizes makes the system write part of a record and then fail.
FULL = """
import resource, signal, sys
from torvyn import Element, Unavailable
from torvyn.components import File
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (25, hard))
sink = File()
sink.init(sys.argv[1])
sink.push(Element("0123456789"))
sink.push(Element("abcdefghi"))
try:
    sink.push(Element("this does not fit"))
except Unavailable as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
sink.push(Element("again"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
def test_a_record_that_did_not_fit_is_taken_back_and_the_next_one_follows_whole(path):
    environment = {**os.environ, "PYTHONPATH": str(Path(torvyn.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"cannot write {path}: file too large" in done.stdout
    assert path.read_text() == "0123456789\nabcdefghi\nagain\n"


def test_json_lines_hold_one_value_per_line(start, path):
    write(start, {"path": str(path), "format": "jsonl"}, Element('{\n "a": 1\n}\n'), Element("[2]"))
    assert path.read_text() == '{"a":1}\n[2]\n'


def test_a_payload_that_is_not_json_is_refused_as_a_json_line_and_the_others_are_written(
    start, path
):
    sink = start(File, {"path": str(path), "format": "jsonl"})
    answer = sink.push_batch([Element("1"), Element("{"), Element("2")])
    sink.teardown()
    assert [type(error) for error in answer] == [type(None), InvalidInput, type(None)]
    assert path.read_text() == "1\n2\n"


def test_a_batch_waits_for_the_disk_once_and_before_it_returns(start, path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_size))
    sink = start(File, {"path": str(path), "fsync": True})
    sink.push_batch([Element("a"), Element("b")])
    sink.teardown()
    assert synced == [len("a\nb\n")]


def test_a_disk_that_does_not_confirm_leaves_nothing_of_the_batch(start, path, monkeypatch):
    def fail(fd):
        raise OSError(5, "input/output error")

    sink = start(File, {"path": str(path), "fsync": True})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(Unavailable, match="input/output error"):
            sink.push(Element("a"))
    sink.push(Element("a"))
    sink.teardown()
    assert path.read_text() == "a\n"


def test_a_torn_record_does_not_run_into_the_next_one(start, path):
    path.write_text("whole\nto")
    write(start, str(path), Element("new"))
    assert path.read_text() == "whole\nto\nnew\n"
