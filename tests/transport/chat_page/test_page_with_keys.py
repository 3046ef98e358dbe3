"""The page in Chromium on a server that requires an API key."""

from __future__ import annotations

from typing import Any

import pytest
from browser_page import Told, answer, ask, shown
from cuttable_connection import cable_to
from keyed_server import Keyed
from live_server import served

from torvyn.engine import Scripted


def enter(page: Any, key: str) -> None:
    page.fill("#key", key)
    page.keyboard.press("Enter")


def test_the_page_asks_for_the_key_and_sends_it(page: Any, keyed: Keyed) -> None:
    with served(Scripted("welcome"), keys=str(keyed.path)) as server:
        page.goto(server.url)
        page.get_by_text("This server requires an API key").wait_for()
        page.get_by_text("Enter a key").click()
        enter(page, keyed.keys["first"])
        page.wait_for_selector("#flow:enabled")
        ask(page)

        shown(page, "welcome")
        assert keyed.keys["first"] not in page.content()


@pytest.mark.parametrize("key", ["wrong", "schlüssel 🔑"])
def test_the_page_asks_again_after_a_wrong_key(page: Any, keyed: Keyed, key: str) -> None:
    with served(Scripted("welcome"), keys=str(keyed.path)) as server:
        page.goto(server.url)
        page.get_by_text("Enter a key").click()
        enter(page, key)

        page.get_by_text("The API key was not accepted").wait_for()


def test_an_answer_for_a_key_is_completed_after_a_cut(page: Any, keyed: Keyed) -> None:
    engine = Told()
    with served(engine, keys=str(keyed.path)) as server, cable_to(server) as cable:
        page.goto(cable.url)
        page.get_by_text("Enter a key").click()
        enter(page, keyed.keys["first"])
        page.wait_for_selector("#flow:enabled")
        ask(page)
        engine.say("one ", "two")
        shown(page, "one two")
        cable.cut()
        answer(page, "reconnecting")
        cable.mend()
        engine.say(None)

        assert answer(page).locator(".text").inner_text() == "one two"


def test_a_rejected_key_is_shown_above_a_conversation_too(page: Any, keyed: Keyed) -> None:
    with served(Scripted("welcome"), keys=str(keyed.path)) as server:
        page.goto(server.url)
        page.get_by_text("Enter a key").click()
        enter(page, keyed.keys["first"])
        page.wait_for_selector("#flow:enabled")
        ask(page)
        answer(page)
        page.evaluate("sessionStorage.setItem('torvyn.key', 'wrong')")
        page.reload()
        page.get_by_role("alert").get_by_text("The API key was not accepted").wait_for()

        assert page.locator(".answer .text").inner_text() == "welcome"
        page.get_by_role("alert").get_by_text("Enter a key").click()
        enter(page, keyed.keys["first"])
        page.wait_for_selector("#flow:enabled")
        assert not page.locator("#trouble").is_visible()
