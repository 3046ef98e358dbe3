"""Chromium, driven by playwright: opens the chat page and uses it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import missing
import pytest
from asgi_client import Gated
from live_server import wait_for

from torvyn.engine import Request, Step

api = pytest.importorskip("playwright.sync_api", reason=missing.why("playwright"))

PATIENCE_MS = 10_000
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

if CHROMIUM is None:
    missing.skip("chromium", whole_module=True)


@contextmanager
def chromium() -> Iterator[Any]:
    # Its sandbox needs a user who is not root; what is opened here is ours.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def window(browser: Any, **options: Any) -> Iterator[Any]:
    """An empty page in a profile of its own; what its scripts complain of fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1000, "height": 800}, **options})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: _note(complaints, said))
    yield page
    context.close()
    assert complaints == []


def _note(complaints: list[str], said: Any) -> None:
    # A refused or broken request is the matter of some tests, and the page shows it itself.
    if said.type == "error" and not said.text.startswith("Failed to load resource"):
        complaints.append(said.text)


class Told(Gated):
    """Says what the test's thread tells it to say, as soon as it is asked; None ends it."""

    def say(self, *tokens: str | None) -> None:
        wait_for(self.has_begun.is_set)
        for token in tokens:
            self._loop.call_soon_threadsafe(self.tokens.put_nowait, token)

    async def steps(self, request: Request) -> AsyncIterator[Step]:
        self._loop = asyncio.get_running_loop()
        async for step in super().steps(request):
            yield step


def visit(page: Any, url: str) -> None:
    """The page, when it is ready to be asked."""
    page.goto(url)
    page.wait_for_selector("#flow:enabled")


def ask(page: Any, words: str = "Hi") -> None:
    page.fill("#words", words)
    page.keyboard.press("Enter")


def answer(page: Any, state: str = "done") -> Any:
    """The last answer, when it is in that state."""
    page.wait_for_selector(f".answer:last-child[data-state={state}]")
    return page.locator(".answer:last-child")


def shown(page: Any, words: str) -> None:
    """Returns when the words can be read in the last answer."""
    page.locator(".answer:last-child .text", has_text=words).wait_for()
