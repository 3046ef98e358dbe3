"""The page's Markdown in Chromium: the same for every split, and as quick at the end of a long
answer as at its beginning."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from browsing import visit, window
from serving import served

from torvyn.engine import Scripted

RENDER = """async (pieces) => {
  const { Markdown } = await import("/assets/markdown.js");
  const root = document.createElement("div");
  const markdown = new Markdown(root);
  for (const piece of pieces) markdown.put(piece);
  markdown.finish();
  return root.innerHTML;
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
LINK = '<a href="{0}" target="_blank" rel="noopener noreferrer">{1}</a>'
CASES = {
    "# T\n\none *two* **three** `four`": "<h1>T</h1><p>one <em>two</em> <strong>three</strong> "
    "<code>four</code></p>",
    "a ***b*** ~~c~~ snake_case_name 2 * 3": "<p>a <em><strong>b</strong></em> <del>c</del> "
    "snake_case_name 2 * 3</p>",
    "- a\n    - b\n    - c\n- d\n\nend": "<ul><li><p>a</p><ul><li><p>b</p></li><li><p>c</p></li>"
    "</ul></li><li><p>d</p></li></ul><p>end</p>",
    "1. a\n\n2. b\n   more": "<ol><li><p>a</p></li><li><p>b\nmore</p></li></ol>",
    "3) c\n4) d": '<ol start="3"><li><p>c</p></li><li><p>d</p></li></ol>',
    "> q\n> - l\n\nx": "<blockquote><p>q</p><ul><li><p>l</p></li></ul></blockquote><p>x</p>",
    "a\n\n---\n\n**b**": "<p>a</p><hr><p><strong>b</strong></p>",
    "see https://a.b/c_(d). [e](http://f.g)": "<p>see "
    + LINK.format("https://a.b/c_(d)", "https://a.b/c_(d)")
    + ". "
    + LINK.format("http://f.g/", "e")
    + "</p>",
    "[a](javascript:b) [c](data:d) [e](/f)": "<p>[a](javascript:b) [c](data:d) [e](/f)</p>",
    "![a](https://b.c/d.png)": f"<p>{LINK.format('https://b.c/d.png', 'a')}</p>",
    "*open `never **closed": "<p>*open `never **closed</p>",
    "\\*a\\* <b>&amp;</b>": "<p>*a* &lt;b&gt;&amp;amp;&lt;/b&gt;</p>",
    "a | b\n--|--\n`c` | **d**\n\ne": '<div tabindex="0" class="table"><table><thead><tr>'
    "<th>a</th><th>b</th></tr></thead><tbody><tr><td><code>c</code></td><td><strong>d</strong></td>"
    "</tr></tbody></table></div><p>e</p>",
    "a | b\nno table": "<p>a | b\nno table</p>",
}
CODE = (
    '<div class="code"><div><span>{0}</span><button type="button" class="copy">Copy</button></div>'
    '<pre tabindex="0"><code>{1}</code></pre></div>'
)
FENCES = {
    "```py\nif a:\n    b\n\n``\n```\nc": CODE.format("py", "if a:\n    b\n\n``") + "<p>c</p>",
    "1. a\n   ```\n   b\n     c\n   ```\n2. d": "<ol><li><p>a</p>"
    + CODE.format("code", "b\n  c")
    + "</li><li><p>d</p></li></ol>",
    "~~~\n```\nnever closed": CODE.format("code", "```\nnever closed"),
}


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    with served(Scripted("x")) as server, window(browser) as opened:
        visit(opened, server.url)
        yield opened


@pytest.mark.parametrize("text", [*CASES, *FENCES])
def test_markdown_is_the_same_however_it_was_cut(page: Any, text: str) -> None:
    expected = (CASES | FENCES)[text]

    assert page.evaluate(RENDER, [text]) == expected
    assert page.evaluate(RENDER, list(text)) == expected
    for middle in range(1, len(text)):
        assert page.evaluate(RENDER, [text[:middle], text[middle:]]) == expected


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
