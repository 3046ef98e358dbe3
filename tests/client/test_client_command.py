"""`torvyn generate --server` and `torvyn chat --server`, with a real server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from asgi_client import Gated
from faulty_network import FaultyNetwork
from keyed_server import Keyed
from live_server import Served, served, wait_for
from pseudo_terminal import CTRL_C, CTRL_D, Terminal

from torvyn.engine import Scripted, Service

ANSWER = "Some **bold** words."


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    services = {"chat": Service("chat", Scripted(ANSWER)), "b": Service("b", Scripted("B"))}
    with served(services) as server:
        yield server


def torvyn(*arguments: str, stdin: str = "", **variables: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "torvyn", *arguments]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[tuple[Served, Gated, Terminal]]:
    """A server whose engine waits for the test, and a chat with it at a terminal."""
    engine = Gated()
    with served(engine) as server:
        terminal = Terminal("chat", "--server", server.url, cwd=tmp_path)
        try:
            yield server, engine, terminal
        finally:
            terminal.close()


def say(server: Served, engine: Gated, *words: str | None) -> None:
    for word in words:
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, word)


def test_generate_prints_what_the_server_answers(server: Served) -> None:
    arguments = ("generate", "--server", server.url, "--flow", "chat", "--timing", "Hi")
    code, out, err = torvyn(*arguments)

    assert (code, out) == (0, ANSWER)
    assert "first token " in err


def test_frames_have_the_id_that_the_server_gave(server: Served) -> None:
    _, out, _ = torvyn("generate", "--server", server.url, "--flow", "b", "--json", "Hi")

    start, delta, end = map(json.loads, out.splitlines())
    assert (start["id"][:4], delta["text"], end["finish"][0]["reason"]) == ("req-", "B", "stop")


def test_each_line_of_a_pipe_is_a_turn(server: Served) -> None:
    code, out, err = torvyn("chat", "--server", server.url, "--flow", "b", stdin="one\ntwo\n")

    assert (code, out, err.count("tokens/s")) == (0, "B\nB\n", 2)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--flow", "nope"), 1, "error[transport.flow-unknown]: no flow is named 'nope'"),
        (("--engine", "scripted"), 2, "the server chooses the engine"),
        (("--raw",), 2, "the server chooses the engine"),
    ],
)
def test_invalid_requests_are_reported(
    server: Served, options: tuple[str, ...], code: int, words: str
) -> None:
    assert code == torvyn("generate", "--server", server.url, *options, "Hi")[0]
    assert words in torvyn("generate", "--server", server.url, *options, "Hi")[2]


def test_an_unreachable_server_and_a_bad_address_are_reported() -> None:
    code, _, err = torvyn("generate", "--server", "http://127.0.0.1:1", "Hi")
    assert (code, "127.0.0.1:1 cannot be reached: connection refused" in err) == (1, True)
    assert torvyn("generate", "--server", "here", "Hi")[0] == 2
    assert torvyn("generate", "--key", "k", "Hi")[0] == 2


@pytest.mark.parametrize(
    ("key", "words"),
    [((), "the request has no API key"), (("--key", "tvk_wrong"), "does not know the API key")],
)
def test_a_missing_or_wrong_key_is_explained_for_a_command(
    tmp_path: Path, key: tuple[str, ...], words: str
) -> None:
    with served(Scripted(ANSWER), keys=str(Keyed(tmp_path).path)) as server:
        code, out, err = torvyn("chat", "--server", server.url, *key, stdin="Hi\n")

    assert (code, out) == (1, "")
    assert words in err
    assert "hint: set TORVYN_KEY to the key that the server's operator gave you" in err


def test_ctrl_c_stops_the_answer_and_not_the_program(
    gated: tuple[Served, Gated, Terminal],
) -> None:
    server, engine, terminal = gated
    terminal.ask("Tell me a story")
    wait_for(engine.has_begun.is_set)
    say(server, engine, "Once upon")
    terminal.expect("Once upon")
    terminal.send(CTRL_C)

    terminal.expect("stopped; the conversation keeps the answer so far")
    wait_for(engine.was_left.is_set)
    terminal.expect("> ")
    terminal.send(CTRL_D)
    assert terminal.wait() == 0


def test_ctrl_c_stops_an_answer_that_has_not_begun(gated: tuple[Served, Gated, Terminal]) -> None:
    _, engine, terminal = gated
    terminal.ask("Tell me a story")
    wait_for(engine.has_begun.is_set)
    terminal.send(CTRL_C)

    terminal.expect("your message was not added")
    wait_for(engine.was_left.is_set)


async def test_a_lost_connection_is_reported_and_no_text_is_lost(server: Served) -> None:
    async with FaultyNetwork(server.port).up() as network:
        network.cuts = [700]
        command = ("-m", "torvyn", "generate", "--server", network.url, "--flow", "chat", "Hi")
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 30)

    assert (process.returncode, out.decode()) == (0, ANSWER)
    assert err.startswith(b"[torvyn] reconnecting...")
