"""The page's Markdown in Chromium: the same for every split, and fast in a long answer too."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from browser_page import visit, window
from live_server import served
from page_markdown_cases import CASES

from torvyn.engine import Scripted

RENDER = """async (pieces) => {
  const { Markdown } = await import("/assets/markdown.js");
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  for (const piece of pieces) markdown.put(piece);
  markdown.finish();
  return root.innerHTML;
}"""
MARKS = (
    "*",
    "**",
    "_",
    "~~",
    "`",
    "```",
    "~~~",
    "\\",
    "# ",
    "> ",
    "- ",
    "1. ",
    "2) ",
    "- [x] ",
    "---",
)
BARS = ("| a | b |\n", "|---|:-:|\n", "|", "[a](https://b.c)", "[", "](", "<br>", "https://d.e")
WORDS = ("\n", "\n\n", "  ", "    ", "\t", " ", "word", "x", "<b>", "&amp;", "日本", "👩‍👩‍👧")
SPLIT = """async (texts) => {
  const { Markdown } = await import("/assets/markdown.js");
  const render = (pieces) => {
    const root = document.createElement("div");
    const markdown = new Markdown(root);
    for (const piece of pieces) markdown.put(piece);
    markdown.finish();
    return root.innerHTML;
  };
  return texts.filter((text) => {
    const whole = render([text]);
    const cut = (size) => text.match(new RegExp(`[^]{1,${size}}`, "g"));
    return [1, 2, 3, 7].some((size) => render(cut(size)) !== whole);
  });
}"""
TEXTS = """async (texts) => {
  const { Markdown } = await import("/assets/markdown.js");
  return texts.map((text) => {
    const root = document.createElement("div");
    const markdown = new Markdown(root);
    markdown.put(text);
    markdown.finish();
    return root.textContent;
  });
}"""
SEEN = """async (pieces) => {
  const { Markdown } = await import("/assets/markdown.js");
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  return pieces.map((piece) => { markdown.put(piece); return root.textContent; });
}"""
DRAWN = """async (pieces) => {
  const { Markdown } = await import("/assets/markdown.js");
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  const make = document.createTextNode;
  let drawn = 0;
  document.createTextNode = (text) => { drawn += text.length; return make.call(document, text); };
  for (const piece of pieces) markdown.put(piece);
  document.createTextNode = make;
  return { drawn, shown: root.textContent.length };
}"""


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    with served(Scripted("x")) as server, window(browser) as opened:
        visit(opened, server.url)
        yield opened


@pytest.mark.parametrize("text", CASES)
def test_markdown_is_the_same_however_it_was_cut(page: Any, text: str) -> None:
    expected = CASES[text]

    assert page.evaluate(RENDER, [text]) == expected
    assert page.evaluate(RENDER, list(text)) == expected
    for middle in range(1, len(text)):
        assert page.evaluate(RENDER, [text[:middle], text[middle:]]) == expected


def documents(pieces: tuple[str, ...], count: int) -> list[str]:
    chance = random.Random(20)
    return ["".join(chance.choices(pieces, k=chance.randint(1, 40))) for _ in range(count)]


def test_documents_of_every_kind_are_the_same_however_they_were_cut(page: Any) -> None:
    assert page.evaluate(SPLIT, documents((*MARKS, *BARS, *WORDS), 400)) == []


def test_no_word_of_a_document_is_lost(page: Any) -> None:
    texts = documents((*MARKS[:5], *MARKS[7:], *WORDS), 400)
    shown = page.evaluate(TEXTS, texts)

    for text, seen in zip(texts, shown, strict=True):
        # Numbers of items are drawn by the browser.
        assert letters(text) <= letters(seen), text


def letters(text: str) -> Counter[str]:
    return Counter(re.findall(r"[^\W\d]", text.replace("_", "").replace("[x]", "").lower()))


@pytest.mark.parametrize("mark", ["> ", "- ", "1. ", "**", "[", "*_"])
def test_marks_without_end_do_not_nest_without_end(page: Any, mark: str) -> None:
    html = page.evaluate(RENDER, [mark * 5000 + "x\n"] * 2)
    steps = [-1 if closes else 1 for closes in re.findall(r"<(/?)\w", html)]

    assert max(itertools.accumulate(steps)) < 40


@pytest.mark.parametrize(
    "token", ["word ", "**bold** ", "*open ", "`open ", "[open ", "solid", "- item\n", "line\n"]
)
def test_a_token_costs_no_more_at_the_end_of_a_long_answer(page: Any, token: str) -> None:
    count = 10_000
    told = page.evaluate(DRAWN, [token] * count)

    # Of a paragraph at most its last 2,000 characters, twice when some of them are settled.
    assert told["drawn"] <= count * 2 * (2000 + len(token))
    assert told["shown"] > count


@pytest.mark.parametrize("before", ["", "text\n", "- item\n  "])
def test_the_head_of_a_table_is_never_shown_as_bars(page: Any, before: str) -> None:
    text = f"{before}| a | b |\n{before and '  '}|---|:-:|\n"

    assert "|" not in "".join(page.evaluate(SEEN, list(text)))
    assert "| a | b |" in page.evaluate(SEEN, [*text[:-8], "no table"])[-1]
