"""The settings of the chat page: which fields a request carries, and which values are rejected."""

from __future__ import annotations

from typing import Any

import pytest
from browser_page import answer, ask, shown, visit
from live_server import served

from torvyn.engine import Scripted, Service


def sampled(request: Any, index: int) -> str:
    return f"temperature {request.temperature}, limit {request.max_tokens}"


def save(page: Any, temperature: str, limit: str) -> None:
    page.click("#open-settings")
    page.get_by_label("Temperature").fill(temperature)
    page.get_by_label("Max tokens").fill(limit)
    page.click("#save")


def test_temperature_and_limit_are_sent_shown_and_remembered(page: Any) -> None:
    with served(Scripted(sampled)) as server:
        visit(page, server.url)
        ask(page)
        shown(page, "temperature None, limit None")
        answer(page)
        save(page, "0.25", "50")
        page.reload()
        page.wait_for_selector("#flow:enabled")
        ask(page)
        shown(page, "temperature 0.25, limit 50")
        answer(page)

        assert page.inner_text("#sampling") == "Temperature 0.25 · at most 50 tokens"
        save(page, "", "")
        ask(page)
        shown(page, "temperature None, limit None")
        assert not page.locator("#sampling").is_visible()


def test_a_limit_cuts_the_answer_and_a_temperature_of_zero_is_one(page: Any) -> None:
    with served(Scripted("one two three four")) as server:
        visit(page, server.url)
        save(page, "0", "2")
        ask(page)

        assert "token limit" in answer(page).inner_text()
        assert page.inner_text("#sampling") == "Temperature 0 · at most 2 tokens"


@pytest.mark.parametrize(
    ("temperature", "limit", "field"),
    [
        ("2.1", "", "Temperature"),
        ("-0.1", "", "Temperature"),
        ("", "0", "Max tokens"),
        ("", "1.5", "Max tokens"),
        ("", "1000001", "Max tokens"),
    ],
)
def test_what_no_model_takes_is_refused_beside_the_field(
    page: Any, temperature: str, limit: str, field: str
) -> None:
    with served(Scripted(sampled)) as server:
        visit(page, server.url)
        save(page, temperature, limit)

        assert page.get_by_role("alert").inner_text().startswith(f"{field} must be ")
        assert page.evaluate("document.activeElement.labels[0].textContent") == field
        page.click("#cancel")
        ask(page)
        shown(page, "temperature None, limit None")


def test_what_is_no_number_is_refused(page: Any) -> None:
    with served(Scripted(sampled)) as server:
        visit(page, server.url)
        page.click("#open-settings")
        page.get_by_label("Temperature").press_sequentially("1e")
        page.click("#save")

        assert page.get_by_role("alert").inner_text().startswith("Temperature must be ")


def test_every_answer_is_labelled_with_the_flow_that_gave_it(page: Any) -> None:
    services = {name: Service(name, Scripted(f"I am {name}")) for name in ("first", "second")}
    with served(services) as server:
        visit(page, server.url)
        for name in ("first", "second", "first"):
            page.select_option("#flow", name)
            ask(page)
            answer(page)

        labels = page.locator(".who").all_inner_texts()
        assert labels == ["first", "second", "first"]
        page.select_option("#flow", "second")
        page.click(".retry:visible")
        shown(page, "I am second")
        assert page.locator(".answer:last-child h2").inner_text() == "second"
