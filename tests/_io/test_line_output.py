"""Lines stay whole on a pipe, a file and a terminal, whichever threads write them."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn._io.line_output import (
    finish,
    line_prefix,
    line_stream,
    reserved,
    write_as,
    write_lines,
    writer_key,
)

WRITERS = "abcd"
TEXTS = ("x", "xx", "x\n", "\n", "x\nx", "x\nx\n")
PARTS = st.lists(st.tuples(st.sampled_from(WRITERS), st.sampled_from(TEXTS)), max_size=30)
"""Who writes what: each writer's text has its name in place of each `x`."""


def written(steps: list[tuple[str, Callable[[], object]]]) -> None:
    """Takes each step on the thread of its writer, one after the other."""
    with ExitStack() as stack:
        threads = {name: stack.enter_context(ThreadPoolExecutor(1)) for name in WRITERS}
        for name, step in steps:
            threads[name].submit(step).result()


@given(PARTS)
def test_each_writer_gets_its_own_lines_in_order(parts: list[tuple[str, str]]) -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))
    texts = [(writer, part.replace("x", writer)) for writer, part in parts]

    written([(writer, partial(stream.write, text)) for writer, text in texts])
    finish(stream)

    expected: Counter[str] = Counter()
    for writer in WRITERS:
        own = "".join(text for name, text in texts if name == writer)
        expected.update(own.split("\n") if own and own[-1] != "\n" else own.split("\n")[:-1])
    lines = data.getvalue().decode().split("\n")
    assert Counter(lines[:-1] if lines[-1] == "" else lines) == expected


@given(PARTS, st.data())
def test_no_line_has_text_of_two_writers_if_they_flush_parts(
    parts: list[tuple[str, str]], choice: st.DataObject
) -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))
    steps: list[tuple[str, Callable[[], object]]] = []
    for writer, part in parts:
        steps.append((writer, partial(stream.write, part.replace("x", writer))))
        if choice.draw(st.booleans()):
            steps.append((writer, stream.flush))

    written(steps)
    finish(stream)

    lines = data.getvalue().decode().split("\n")
    assert all(len(set(line)) <= 1 for line in lines)
    for writer in WRITERS:
        own = "".join(part for name, part in parts if name == writer)
        assert "".join(lines).count(writer) == own.count("x")


def test_a_part_of_a_line_that_is_flushed_is_shown_at_once() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))

    print("Hel", end="", file=stream, flush=True)
    assert data.getvalue() == b"Hel"
    print("lo", file=stream, flush=True)

    assert data.getvalue() == b"Hello\n"


def test_messages_join_no_line_that_their_own_thread_has_begun() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))

    print("begun, ", end="", file=stream)
    write_lines(stream, "held apart")
    print("ended", file=stream)
    print("shown", end="", file=stream, flush=True)
    write_lines(stream, "on a line of its own")
    finish(stream)

    assert data.getvalue() == b"held apart\nbegun, ended\nshown\non a line of its own\n"


def test_lines_have_the_prefix_of_their_context() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))

    def tell() -> None:
        line_prefix.set("main| ")
        print("one\ntwo", file=stream)
        print("part", end="", file=stream, flush=True)
        assert data.getvalue() == b"main| one\nmain| two\n"

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    print("three", file=stream)
    write_lines(stream, "four\nfive", "side| ")
    finish(stream)

    expected = "main| one\nmain| two\nthree\nside| four\nside| five\nmain| part"
    assert data.getvalue().decode() == expected


def test_threads_that_take_turns_go_on_with_one_line() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))
    key = writer_key()

    def tell(word: str) -> None:
        write_as(key, "main| ")
        print(word, end=" ", file=stream)

    written([(writer, partial(tell, writer)) for writer in "abcab"])
    finish(stream)

    assert data.getvalue() == b"main| a b c a b "


def test_the_end_of_one_prefix_leaves_the_lines_of_others_open() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "utf-8"))

    def tell(name: str, text: str) -> None:
        line_prefix.set(f"{name}| ")
        stream.write(text)

    steps = [("a", "one "), ("b", "two "), ("", ""), ("b", "three\n")]
    ending = partial(finish, stream, "a| ")
    written([(name, partial(tell, name, text)) if name else ("c", ending) for name, text in steps])
    finish(stream)

    assert data.getvalue() == b"a| one \nb| two three\n"


def test_a_stream_is_not_reserved_while_a_write_of_another_thread_is_stuck() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as reader, open(writing, "w") as writer:
        stream = line_stream(writer)
        thread = threading.Thread(target=print, args=("x" * 1_000_000,), kwargs={"file": stream})
        thread.start()
        # The write has begun, and the pipe takes only a part of it.
        assert reader.read(1) == b"x"

        with reserved(stream, 0.01) as is_free:
            assert not is_free
        left = 1_000_000 - 1
        while left > 0:
            left -= len(reader.read(65_536))
        thread.join()
        with reserved(stream, 0.01) as is_free:
            assert is_free
        stream.close()


def test_a_character_that_the_encoding_lacks_is_escaped() -> None:
    data = io.BytesIO()
    stream = line_stream(io.TextIOWrapper(data, "ascii"))

    write_lines(stream, "café")
    stream.flush()

    assert data.getvalue() == b"caf\\xe9\n"


PROGRAM = """
import logging, sys, threading
from torvyn._io import line_output
from torvyn._observe.logs import show_logs

line_output.install()
start = threading.Barrier(6)

def run(name, tell):
    start.wait()
    for number in range(1500):
        tell(name, number, "x" * (number % 300))

def in_parts(*words):
    for word in words:
        print(word, end="\\n" if word is words[-1] else " ")

def to_stderr(*words):
    print(*words, file=sys.stderr)

def to_log(*words):
    logging.getLogger("torvyn.test").warning(" ".join(map(str, words)))

writers = {"A": print, "B": print, "C": in_parts, "D": in_parts, "E": to_stderr, "F": to_log}
with show_logs("human", logging.INFO):
    threads = [threading.Thread(target=run, args=item) for item in writers.items()]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
LINE = re.compile(r"(?:\S+ \[torvyn\] warning: )?([A-F]) (\d+) (x*)\r?")


def to_pipe(path: Path) -> bytes:
    return subprocess.run(
        [sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    ).stdout


def to_file(path: Path) -> bytes:
    output = path.with_name("output")
    with output.open("wb") as file:
        subprocess.run([sys.executable, path], stdout=file, stderr=file, check=True)
    return output.read_bytes()


def to_terminal(path: Path) -> bytes:
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, path], stdout=theirs, stderr=theirs)
    os.close(theirs)
    data = bytearray()
    with open(ours, "rb", buffering=0) as screen:
        while part := _read(screen):
            data += part
    assert process.wait() == 0
    return bytes(data)


def _read(screen: BinaryIO) -> bytes:
    try:
        return screen.read(65_536)
    except OSError:
        # A terminal without a program on it.
        return b""


@pytest.mark.promise("tokens.whole-lines")
@pytest.mark.parametrize("print_to", [to_pipe, to_file, to_terminal])
def test_lines_of_six_threads_are_whole(print_to: Callable[[Path], bytes], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    lines = print_to(program).decode().split("\n")

    assert lines.pop() == ""
    found = [match and match.groups() for match in map(LINE.fullmatch, lines)]
    for name in "ABCDEF":
        expected = [(name, str(number), "x" * (number % 300)) for number in range(1500)]
        assert [each for each in found if each and each[0] == name] == expected
    assert None not in found
