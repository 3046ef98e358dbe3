"""The chat page in Chromium, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgi_client import Endless
from browser_page import Told, answer, ask, shown, visit, window
from live_server import served, wait_for

from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Service, Step

ROOT = "document.documentElement"
ATTACK = "<script>hit()</script><img src=x onerror=hit()><a href='javascript:hit()'>a</a>"
WIDE = "x" * 400


class Thinking(Engine):
    """Thinks aloud, then answers."""

    name = "thinking"

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        yield Step((ChoiceStep(0, text="Let me see.", kind="reasoning"),))
        yield Step((ChoiceStep(0, text="It is so.", finish_reason="stop"),))


def test_an_answer_is_markdown_while_it_streams(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say("# Ti", "tle\n\nSome **bo", "ld** words\n\n- one\n- tw")
        page.locator(".answer strong", has_text="bold").wait_for()
        assert answer(page, "streaming").locator("li").count() == 2
        engine.say("o\n\n```c\nint x", ";\n```\n", None)

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


def test_reasoning_is_folded_until_it_is_opened(page: Any) -> None:
    with served(Thinking()) as server:
        visit(page, server.url)
        ask(page)
        assert answer(page).locator(".text").inner_text() == "It is so."
        assert not page.locator(".thoughts").is_visible()
        page.click(".reasoning summary")

        assert page.locator(".thoughts").inner_text() == "Let me see."


def test_stop_ends_the_answer_and_the_engine_is_left(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say("half an answer")
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


def test_a_failed_answer_shows_the_error_and_can_be_retried(page: Any) -> None:
    with served(Scripted("one two three", fail_at=2)) as server:
        visit(page, server.url)
        ask(page)
        assert "engine.scripted-failure" in answer(page, "failed").inner_text()
        server.application.services["chat"] = Service("chat", Scripted("one two three"))
        page.click(".retry")

        shown(page, "one two three")
        assert page.locator(".answer").count() == page.locator(".question").count() == 1


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "token limit"), ("content_filter", "Ended by a guard")]
)
def test_an_answer_that_was_cut_off_shows_why(page: Any, reason: Any, words: str) -> None:
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


def test_the_keyboard_is_enough(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        page.keyboard.type("one")
        page.keyboard.press("Shift+Enter")
        page.keyboard.type("two\n")
        engine.say("some text")
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


def test_the_page_follows_the_dark_colour_scheme(browser: Any) -> None:
    def ground(scheme: str) -> list[int]:
        with window(browser, color_scheme=scheme) as page:
            visit(page, server.url)
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            return [int(part) for part in colour[4:-1].split(",")]

    with served(Scripted("x")) as server:
        assert min(ground("light")) > 200
        assert max(ground("dark")) < 60


def test_running_streams_and_counters_are_shown_while_the_panel_is_open(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say("a", "b")
        shown(page, "ab")
        page.click("#open-status")

        page.locator("#streams .card", has_text="chat").wait_for()
        engine.say(None)
        page.locator("#streams", has_text="Nothing is running.").wait_for()
        page.locator("#flows .card", has_text="finished").wait_for()
