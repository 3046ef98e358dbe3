"""Markdown, and the HTML that the page makes of it.

Lists and tables follow CommonMark and GitHub's tables, with two exceptions: items are always
paragraphs, and two spaces are enough to nest a list, because models write it so.
"""

from __future__ import annotations

LINK = '<a href="{0}" target="_blank" rel="noopener noreferrer">{1}</a>'
CODE = (
    '<div class="code"><div><span>{0}</span><button class="copy" type="button">Copy</button></div>'
    '<pre tabindex="0"><code>{1}</code></pre></div>'
)
BOX = '<input type="checkbox"{0} disabled="" aria-label="{1}"> '
TO_DO, DONE = BOX.format("", "To do"), BOX.format(' checked=""', "Done")


def ul(*items: str) -> str:
    return f"<ul>{''.join(items)}</ul>"


def ol(*items: str, start: str = "") -> str:
    return f"<ol{start}>{''.join(items)}</ol>"


def li(text: str, *more: str) -> str:
    return f"<li><p>{text}</p>{''.join(more)}</li>"


def task(text: str, *more: str) -> str:
    return f'<li class="task"><p>{text}</p>{"".join(more)}</li>'


def row(*cells: str, name: str = "td", sides: str = "") -> str:
    """A row; `sides` are the first letters of the sides on which its cells stand."""
    classes = {
        letter: f' class="{side}"' for side in ("left", "center", "right") for letter in side[0]
    }
    made = [
        f"<{name}{classes.get(side, '')}>{cell}</{name}>"
        for cell, side in zip(cells, sides.ljust(len(cells)), strict=True)
    ]
    return f"<tr>{''.join(made)}</tr>"


def table(head: str, *rows: str) -> str:
    body = f"<tbody>{''.join(rows)}</tbody>"
    return f'<div tabindex="0" class="table"><table><thead>{head}</thead>{body}</table></div>'


def heads(*cells: str, sides: str = "") -> str:
    return row(*cells, name="th", sides=sides)


TEXT = {
    "# T\n\none *two* **three** `four`": "<h1>T</h1><p>one <em>two</em> <strong>three</strong> "
    "<code>four</code></p>",
    "a ***b*** ~~c~~ snake_case_name 2 * 3": "<p>a <em><strong>b</strong></em> <del>c</del> "
    "snake_case_name 2 * 3</p>",
    "> q\n> - l\n\nx": f"<blockquote><p>q</p>{ul(li('l'))}</blockquote><p>x</p>",
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
    "one\\\ntwo  \nthree": "<p>one\ntwo  \nthree</p>",
    "## T ##\n# C#": "<h2>T</h2><h1>C#</h1>",
    "a<br>b<BR />c<br x>": "<p>a<br>b<br>c&lt;br x&gt;</p>",
}
LISTS = {
    "- a\n    - b\n    - c\n- d\n\nend": ul(li("a", ul(li("b"), li("c"))), li("d")) + "<p>end</p>",
    "1. a\n\n2. b\n   more": ol(li("a"), li("b\nmore")),
    "3) c\n4) d": ol(li("c"), li("d"), start=' start="3"'),
    "0. a\n1. b": ol(li("a"), li("b"), start=' start="0"'),
    "- a\n  1. b\n     - c\n  2. d\n- e": ul(li("a", ol(li("b", ul(li("c"))), li("d"))), li("e")),
    "1. a\n  - b\n2. c": ol(li("a", ul(li("b"))), li("c")),
    "1. a\n  - b\n    - c\n2. d": ol(li("a", ul(li("b", ul(li("c"))))), li("d")),
    "- a\n\t- b\n\t\t- c": ul(li("a", ul(li("b", ul(li("c")))))),
    "- a\n- b\n* c\n1) d\n1. e": ul(li("a"), li("b")) + ul(li("c")) + ol(li("d")) + ol(li("e")),
    "Since\n1986. No list\n1. List": "<p>Since\n1986. No list</p>" + ol(li("List")),
    "- a\n\n  b\n\n- c\n\nd": ul(li("a", "<p>b</p>"), li("c")) + "<p>d</p>",
    "- a\nlazy\n- b": ul(li("a\nlazy"), li("b")),
    "-\n- a\n-\nb": ul("<li></li>", li("a"), "<li></li>") + "<p>b</p>",
}
TASKS = {
    "- [ ] a\n- [x] b\n- [X] **c**": ul(
        task(f"{TO_DO}a"), task(f"{DONE}b"), task(f"{DONE}<strong>c</strong>")
    ),
    "- [y] d\n- [ ]\n- [ ]e": ul(li("[y] d"), li("[ ]"), li("[ ]e")),
    "1. [x] a\n   - [ ] b\n     c": ol(task(f"{DONE}a", ul(task(f"{TO_DO}b\nc")))),
    "[ ] a": "<p>[ ] a</p>",
}
TABLES = {
    "a | b\n--|--\n`c` | **d**\n\ne": table(
        heads("a", "b"), row("<code>c</code>", "<strong>d</strong>")
    )
    + "<p>e</p>",
    "| l | c | r | n |\n|:-|:-:|-:|-|\n| 1 | 2 | 3 | 4 |": table(
        heads("l", "c", "r", "n", sides="lcr"), row("1", "2", "3", "4", sides="lcr")
    ),
    "text\n| a |\n|---|\n| b |\n# h": "<p>text</p>" + table(heads("a"), row("b")) + "<h1>h</h1>",
    "| a | b |\n|---|---|\n| c \\| `d\\|e` | f |": table(
        heads("a", "b"), row("c | <code>d|e</code>", "f")
    ),
    "| a | b |\n|---|---|\n| g |\nh\n| i | j | k |\n> q": table(
        heads("a", "b"), row("g", ""), row("h", ""), row("i", "j")
    )
    + "<blockquote><p>q</p></blockquote>",
    "| a | b |\n|---|\n": "<p>| a | b |\n|---|</p>",
    "a | b\nno table": "<p>a | b\nno table</p>",
    "| a |\n|---|\n| b<br>c |": table(heads("a"), row("b<br>c")),
    "- x\n\n  | a |\n  |---|\n  | b |\n- y": ul(li("x", table(heads("a"), row("b"))), li("y")),
    "> | a |\n> |---|\n\nb": f"<blockquote>{table(heads('a'))}</blockquote><p>b</p>",
}
FENCES = {
    "```py\nif a:\n    b\n\n``\n```\nc": CODE.format("py", "if a:\n    b\n\n``") + "<p>c</p>",
    "1. a\n   ```\n   b\n     c\n   ```\n2. d": ol(li("a", CODE.format("code", "b\n  c")), li("d")),
    "```make\nall:\n\tcc x\n```": CODE.format("make", "all:\n\tcc x"),
    "~~~\n```\nnever closed": CODE.format("code", "```\nnever closed"),
}
CASES = TEXT | LISTS | TASKS | TABLES | FENCES
