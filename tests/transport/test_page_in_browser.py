"""The page in Chromium, on a real server: what a person sees and can do."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from browsing import answer, ask, chromium, shown, visit, window
from cable import cable_to
from calling import Endless, Gated
from serving import Served, served, wait_for

from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Service, Step

ROOT = "document.documentElement"
ATTACK = "<script>hit()</script><img src=x onerror=hit()><a href='javascript:hit()'>a</a>"
WIDE = "x" * 400
EVENT_SOURCE = """(url) => new Promise((resolve) => {
  const frames = [];
  const source = new EventSource(url);
  source.onmessage = ({ data }) => frames.push(JSON.parse(data));
  source.onerror = () => source.readyState === EventSource.CLOSED && resolve(frames);
})"""


class Thinking(Engine):
    """Thinks aloud, then answers."""

    name = "thinking"

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        yield Step((ChoiceStep(0, text="Let me see.", kind="reasoning"),))
        yield Step((ChoiceStep(0, text="It is so.", finish_reason="stop"),))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with window(browser) as opened:
        yield opened


def say(server: Served, engine: Gated, *tokens: str | None) -> None:
    for token in tokens:
        server.loop.call_soon_threadsafe(engine.tokens.put_nowait, token)


def test_an_answer_is_markdown_while_it_streams(page: Any) -> None:
    engine = Gated()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        say(server, engine, "# Ti", "tle\n\nSome **bo", "ld** words\n\n- one\n- tw")
        page.locator(".answer strong", has_text="bold").wait_for()
        assert answer(page, "streaming").locator("li").count() == 2
        say(server, engine, "o\n\n```c\nint x", ";\n```\n", None)

        done = answer(page)
        assert done.locator("h1").inner_text() == "Title"
        assert done.locator("pre code").inner_text() == "int x;"
        assert "first token" in done.locator(".figures").inner_text()


def test_what_a_model_writes_is_never_html(page: Any) -> None:
    forms = [ATTACK, f"# {ATTACK}", f"- {ATTACK}", f"> {ATTACK}", f"```\n{ATTACK}\n```"]
    text = "\n\n".join([*forms, f"[{ATTACK}](javascript:hit())", f"a|b\n-|-\n{ATTACK}|x"])
    with served(Scripted(text)) as server:
        page.add_init_script("window.hits = 0; window.hit = () => { window.hits++ }")
        visit(page, server.url)
        ask(page, ATTACK)

        done = answer(page)
        assert done.locator(".text").inner_text().count(ATTACK) == len(forms) + 2
        assert done.locator("script, img, a").count() == 0
        assert page.locator(".bubble").inner_text() == ATTACK
        assert page.evaluate("window.hits") == 0


def test_reasoning_is_folded_away_until_it_is_asked_for(page: Any) -> None:
    with served(Thinking()) as server:
        visit(page, server.url)
        ask(page)
        assert answer(page).locator(".text").inner_text() == "It is so."
        assert not page.locator(".thoughts").is_visible()
        page.click(".reasoning summary")

        assert page.locator(".thoughts").inner_text() == "Let me see."


def test_stop_ends_the_answer_and_the_engine_is_left(page: Any) -> None:
    engine = Gated()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        say(server, engine, "half an answer")
        shown(page, "half an answer")
        page.click("#stop")

        assert "Stopped." in answer(page).inner_text()
        assert wait_for(engine.was_left.is_set)


def test_leaving_the_page_ends_the_answer(page: Any) -> None:
    engine = Endless()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        shown(page, "x")
        page.goto("about:blank")

        assert wait_for(engine.was_left.is_set)


def test_a_failed_answer_says_why_and_can_be_retried(page: Any) -> None:
    with served(Scripted("one two three", fail_at=2)) as server:
        visit(page, server.url)
        ask(page)
        assert "engine.scripted-failure" in answer(page, "failed").inner_text()
        server.application.services["chat"] = Service("chat", Scripted("one two three"))
        page.click(".retry")

        shown(page, "one two three")
        assert page.locator(".answer").count() == page.locator(".question").count() == 1


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "limit of tokens"), ("content_filter", "Ended by a guard")]
)
def test_an_answer_that_did_not_end_by_itself_says_so(page: Any, reason: Any, words: str) -> None:
    with served(Scripted("an answer", finish_reason=reason)) as server:
        visit(page, server.url)
        ask(page)

        assert words in answer(page).locator(".note").inner_text()


def test_a_conversation_is_sent_with_its_system_prompt(page: Any) -> None:
    def echo(request: Any, index: int) -> str:
        return " / ".join(f"{m['role']}: {m['content']}" for m in request.messages)

    with served(Scripted(echo)) as server:
        visit(page, server.url)
        page.click("#open-settings")
        page.fill("#system", "Be kind.")
        page.click("#save")
        ask(page, "one")
        shown(page, "system: Be kind. / user: one")
        answer(page)
        ask(page, "two")

        first = "system: Be kind. / user: one"
        shown(page, f"{first} / assistant: {first} / user: two")


def test_a_network_that_is_gone_is_said_and_an_answer_can_be_retried(page: Any) -> None:
    with served(Scripted("here I am")) as server, cable_to(server) as cable:
        visit(page, cable.url)
        cable.cut()
        ask(page)
        assert "could not be reached" in answer(page, "failed").inner_text()
        cable.mend()
        page.click(".retry")

        shown(page, "here I am")


def test_an_answer_whose_network_was_cut_is_completed_as_if_it_were_not(page: Any) -> None:
    engine = Gated()
    with served(engine) as server, cable_to(server) as cable:
        visit(page, cable.url)
        ask(page)
        say(server, engine, "one **tw", "o** three")
        shown(page, "three")
        cable.cut()
        assert "Reconnecting" in answer(page, "reconnecting").inner_text()
        say(server, engine, " four `fi", "ve`", None)
        cable.mend()

        text = answer(page).locator(".text")
        assert text.inner_html() == "<p>one <strong>two</strong> three four <code>five</code></p>"


def test_an_answer_can_be_stopped_while_the_network_is_gone(page: Any) -> None:
    engine = Gated()
    with served(engine) as server, cable_to(server) as cable:
        visit(page, cable.url)
        ask(page)
        say(server, engine, "half")
        shown(page, "half")
        cable.cut()
        answer(page, "reconnecting")
        page.keyboard.press("Escape")
        assert "Stopped." in answer(page).inner_text()
        cable.mend()

        assert wait_for(engine.was_left.is_set)


def test_who_reads_the_stream_elsewhere_takes_it_over(page: Any) -> None:
    engine = Gated()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        say(server, engine, "half")
        shown(page, "half")
        [call] = server.application.calls.values()
        with urllib.request.urlopen(f"{server.url}/v1/streams/{call.id}", timeout=10) as other:
            assert "session.taken-over" in answer(page, "failed").inner_text()
            say(server, engine, " and half", None)

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


def test_the_keyboard_is_enough(page: Any) -> None:
    engine = Gated()
    with served(engine) as server:
        visit(page, server.url)
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two\n")
        say(server, engine, "some text")
        shown(page, "some text")
        page.keyboard.press("Escape")
        answer(page)
        page.keyboard.press("Shift+Tab")

        assert page.locator(".bubble").inner_text() == "one\ntwo"
        assert page.evaluate("document.activeElement.textContent") == "Retry"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_phone_never_scrolls_sideways(browser: Any) -> None:
    table = f"a|b|c|d\n-|-|-|-\n{WIDE[:60]}|{WIDE[:60]}|c|d"
    text = f"{WIDE}\n\n```\n{WIDE}\n```\n\n{table}\n\n`{WIDE}`\n\n# {WIDE}\n\n- {WIDE}"
    services = {WIDE[:60]: Service("wide", Scripted(text))}
    size = {"width": 360, "height": 700}
    with served(services) as server, window(browser, viewport=size, is_mobile=True) as page:
        visit(page, server.url)
        empty = page.evaluate(f"{ROOT}.scrollWidth")
        ask(page, WIDE)
        answer(page)
        page.click("#open-status")

        assert empty == page.evaluate(f"{ROOT}.scrollWidth") == 360
        assert page.evaluate("(e => e.scrollWidth - e.clientWidth)(scroller)") == 0


def test_the_page_is_dark_for_those_who_want_it_dark(browser: Any) -> None:
    def ground(scheme: str) -> list[int]:
        with window(browser, color_scheme=scheme) as page:
            visit(page, server.url)
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            return [int(part) for part in colour[4:-1].split(",")]

    with served(Scripted("x")) as server:
        assert min(ground("light")) > 200
        assert max(ground("dark")) < 60


def test_running_streams_and_counters_are_shown_while_the_panel_is_open(page: Any) -> None:
    engine = Gated()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        say(server, engine, "a", "b")
        shown(page, "ab")
        page.click("#open-status")

        page.locator("#streams .card", has_text="chat").wait_for()
        say(server, engine, None)
        page.locator("#streams", has_text="Nothing.").wait_for()
        page.locator("#flows .card", has_text="finished").wait_for()
