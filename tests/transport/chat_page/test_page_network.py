"""The chat page in Chromium with a broken network."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browser_page import Told, answer, ask, shown, visit
from cuttable_connection import cable_to
from live_server import PATIENCE_S, served, wait_for

from torvyn.engine import Scripted, Service
from torvyn.serve import ServerSettings, app

EVENT_SOURCE = """(url) => new Promise((resolve) => {
  const frames = [];
  const source = new EventSource(url);
  source.onmessage = ({ data }) => frames.push(JSON.parse(data));
  source.onerror = () => source.readyState === EventSource.CLOSED && resolve(frames);
})"""
PLACE = "/tools/chat"


@contextmanager
def mounted() -> Iterator[str]:
    """The address of the application under a path of another one, on uvicorn."""
    import uvicorn

    inner = app({"chat": Service("chat", Scripted("here I am"))}, ServerSettings())

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "root_path": PLACE}, receive, send)

    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(outer, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}{PLACE}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        sock.close()


def test_a_lost_network_is_shown_and_an_answer_can_be_retried(page: Any) -> None:
    with served(Scripted("here I am")) as server, cable_to(server) as cable:
        visit(page, cable.url)
        cable.cut()
        ask(page)
        assert "could not be reached" in answer(page, "failed").inner_text()
        cable.mend()
        page.click(".retry")

        shown(page, "here I am")


def test_an_answer_whose_network_was_cut_is_completed_as_if_it_were_not(page: Any) -> None:
    engine = Told()
    with served(engine) as server, cable_to(server) as cable:
        visit(page, cable.url)
        ask(page)
        engine.say("one **tw", "o** three")
        shown(page, "three")
        cable.cut()
        assert "Reconnecting" in answer(page, "reconnecting").inner_text()
        engine.say(" four `fi", "ve`", None)
        cable.mend()

        text = answer(page).locator(".text")
        assert text.inner_html() == "<p>one <strong>two</strong> three four <code>five</code></p>"


def test_an_answer_can_be_stopped_without_a_network(page: Any) -> None:
    engine = Told()
    with served(engine) as server, cable_to(server) as cable:
        visit(page, cable.url)
        ask(page)
        engine.say("half")
        shown(page, "half")
        cable.cut()
        answer(page, "reconnecting")
        page.keyboard.press("Escape")
        assert "Stopped." in answer(page).inner_text()
        cable.mend()

        assert wait_for(engine.was_left.is_set)


def test_a_second_connection_takes_the_stream_over(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say("half")
        shown(page, "half")
        [call] = server.application.running.calls.values()
        with urllib.request.urlopen(f"{server.url}/v1/streams/{call.id}", timeout=10) as other:
            assert "session.taken-over" in answer(page, "failed").inner_text()
            engine.say(" and half", None)

            assert b" and half" in other.read()


def test_an_event_source_reads_a_stream_once_and_stops(page: Any) -> None:
    body = json.dumps({"prompt": "Hi", "stateful": True}).encode()
    with served(Scripted("one two three")) as server:
        with urllib.request.urlopen(f"{server.url}/v1/streams", body, timeout=10) as first:
            start = json.loads(first.read().split(b"data: ")[1].splitlines()[0])
        visit(page, server.url)
        # It gives up only when it is told that there is no more.
        frames = page.evaluate(EVENT_SOURCE, f"/v1/streams/{start['id']}")

    assert [frame["type"] for frame in frames][:: len(frames) - 1] == ["start", "end"]
    assert "".join(frame.get("text", "") for frame in frames) == "one two three"


def test_the_page_works_where_the_server_is_mounted(page: Any) -> None:
    with mounted() as url:
        visit(page, f"{url}/")
        ask(page)
        shown(page, "here I am")
        assert page.locator("#address").text_content() == f"{url}/v1"
