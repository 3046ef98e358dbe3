"""The conversation across a reload: stored in the tab, limited in size, and private to the tab."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from browser_page import Told, answer, ask, shown, visit
from live_server import served, wait_for

from torvyn.engine import ChoiceStep, Engine, Request, Scripted, Service, Step

ATTACK = "<img src=x onerror=hit()> [a](javascript:hit())"
LINES = "\n\n".join(f"line {number}" for number in range(200))
NO_STORAGE = """Object.defineProperty(window, "sessionStorage", {
  get() { throw new DOMException("denied", "SecurityError"); },
});"""
SMALL_STORAGE = """const set = Storage.prototype.setItem;
Storage.prototype.setItem = function (name, text) {
  if (text.length > 30_000) throw new DOMException("full", "QuotaExceededError");
  set.call(this, name, text);
};"""


class Thinker(Engine):
    """Thinks, answers, and is cut at its limit."""

    name = "thinker"

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        yield Step((ChoiceStep(0, text="Let me see.", kind="reasoning"),))
        yield Step((ChoiceStep(0, text="- [x] **so**", finish_reason="length"),))


def said(request: Any, index: int) -> str:
    return " / ".join(str(message["content"]) for message in request.messages)


def reload(page: Any) -> None:
    page.reload()
    page.wait_for_selector("#flow:enabled")


def texts(page: Any) -> list[str]:
    return list(page.locator(".bubble, .answer .text").all_inner_texts())


def test_a_conversation_is_the_same_after_a_reload_and_goes_on(page: Any) -> None:
    services = {"echo": Service("echo", Scripted(said)), "deep": Service("deep", Thinker())}
    with served(services) as server:
        visit(page, server.url)
        ask(page, "one")
        answer(page)
        page.select_option("#flow", "deep")
        ask(page, "two")
        answer(page)
        before = page.inner_html("#turns")
        reload(page)

        assert page.inner_html("#turns") == before
        assert page.locator(".who").all_inner_texts() == ["echo", "deep"]
        assert page.input_value("#flow") == "deep"
        page.select_option("#flow", "echo")
        ask(page, "three")
        shown(page, "one / one / two / - [x] so / three")


def test_a_failed_answer_is_failed_after_a_reload_and_can_be_retried(page: Any) -> None:
    with served(Scripted("one two three", fail_at=2)) as server:
        visit(page, server.url)
        ask(page)
        before = answer(page, "failed").inner_text()
        reload(page)

        assert answer(page, "failed").inner_text() == before
        server.application.services["chat"] = Service("chat", Scripted("one two three"))
        page.click(".retry")
        shown(page, "one two three")


def test_a_reload_in_the_middle_of_an_answer_keeps_what_was_there(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say("half an **answer**")
        shown(page, "half an answer")
        reload(page)

        assert "Interrupted" in answer(page).inner_text()
        assert answer(page).locator("strong").inner_text() == "answer"
        assert wait_for(engine.was_left.is_set)


def test_what_was_kept_is_no_more_html_than_what_was_written(page: Any) -> None:
    with served(Scripted(ATTACK)) as server:
        page.add_init_script("window.hits = 0; window.hit = () => { window.hits++ }")
        visit(page, server.url)
        ask(page, ATTACK)
        answer(page)
        reload(page)

        assert texts(page) == [ATTACK, ATTACK]
        assert page.locator("#turns :is(img, a)").count() == 0
        assert page.evaluate("window.hits") == 0


def test_what_was_typed_and_not_sent_is_still_there(page: Any) -> None:
    with served(Scripted("x")) as server:
        visit(page, server.url)
        page.fill("#words", "half a\nquestion")
        reload(page)

        assert page.input_value("#words") == "half a\nquestion"
        assert page.locator("#send").is_enabled()


def test_a_new_chat_forgets_the_old_one(page: Any) -> None:
    with served(Scripted("x")) as server:
        visit(page, server.url)
        ask(page)
        answer(page)
        page.click("#new")
        reload(page)

        assert texts(page) == []
        assert page.locator("#empty").is_visible()


def test_tabs_have_conversations_of_their_own(page: Any) -> None:
    with served(Scripted(said)) as server:
        other = page.context.new_page()
        for tab, words in ((page, "mine"), (other, "yours"), (page, "mine too")):
            if tab.url == "about:blank":
                visit(tab, server.url)
            ask(tab, words)
            answer(tab)
        reload(page)
        reload(other)

        assert texts(page) == ["mine", "mine", "mine too", "mine / mine / mine too"]
        assert texts(other) == ["yours", "yours"]


def test_a_browser_that_keeps_nothing_is_no_obstacle(page: Any) -> None:
    with served(Scripted(said)) as server:
        page.add_init_script(NO_STORAGE)
        visit(page, server.url)
        page.click("#open-settings")
        page.fill("#system", "Be kind.")
        page.click("#save")
        ask(page, "one")
        shown(page, "Be kind. / one")
        answer(page)

        assert "a reload would lose it" in page.inner_text("#dropped")
        reload(page)
        assert texts(page) == []


def test_where_there_is_little_room_the_oldest_turns_go_first(page: Any) -> None:
    with served(Scripted("word " * 2000)) as server:
        page.add_init_script(SMALL_STORAGE)
        visit(page, server.url)
        for number in range(4):
            ask(page, f"question {number}")
            answer(page)
        reload(page)

        # A turn is a little more than 10,000 characters, and 30,000 have room for two.
        assert page.locator(".bubble").all_inner_texts() == ["question 2", "question 3"]
        assert "2 earlier questions and their answers" in page.inner_text("#dropped")
        reload(page)
        assert "2 earlier questions and their answers" in page.inner_text("#dropped")


@pytest.mark.parametrize(
    "kept", ["{", "null", "[]", '{"version":9}', '{"version":1,"turns":[{}]}', '{"version":1}']
)
def test_what_cannot_be_read_is_passed_over(page: Any, kept: str) -> None:
    with served(Scripted("x")) as server:
        page.add_init_script(f"sessionStorage.setItem('torvyn.conversation:/', '{kept}')")
        visit(page, server.url)

        assert page.locator("#empty").is_visible()


def test_the_reader_is_where_they_were(page: Any) -> None:
    with served(Scripted(LINES)) as server:
        visit(page, server.url)
        ask(page)
        answer(page)
        reload(page)
        assert (
            page.evaluate("scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight") < 2
        )
        page.evaluate("scroller.scrollTop = 700")
        page.locator("#to-end").wait_for()
        reload(page)

        assert page.evaluate("scroller.scrollTop") == 700


def test_a_reader_who_scrolls_up_stays_there_while_text_arrives(page: Any) -> None:
    engine = Told()
    with served(engine) as server:
        visit(page, server.url)
        ask(page)
        engine.say(LINES)
        shown(page, "line 199")
        page.evaluate("scroller.scrollTop -= 30")
        page.locator("#to-end").wait_for()
        before = page.evaluate("scroller.scrollTop")
        engine.say("\n\nmore\n\nand more", None)
        answer(page)

        assert page.evaluate("scroller.scrollTop") == before
        page.click("#to-end")
        assert (
            page.evaluate("scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight") < 2
        )
