"""Markdown inside of a line: emphasis, code, links and escapes, while it streams.

An opened span waits for its end, at most to the end of its line or for `LIMIT` characters; one that
has none is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

LIMIT: Final = 160
"""How long an opened span waits for its end."""

STRONG: Final = "1"
QUIET: Final = "2"
EMPHASIS: Final = "3"
LINK: Final = "4"
DELETED: Final = "9"
CODE: Final = "36"

_PLAIN: Final = re.compile(r"[^`*_~\[\\]+")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SPANS: Final = {
    "`": re.compile(r"(?P<run>`+)(?!`)(?P<text>.+?)(?<!`)(?P=run)(?!`)"),
    "*": re.compile(r"(?P<run>\*{1,3})(?=[^\s*])(?P<text>.+?)(?<=[^\s*])(?P=run)(?!\*)"),
    "_": re.compile(r"(?P<run>_{1,3})(?=[^\s_])(?P<text>.+?)(?<=[^\s_])(?P=run)(?!\w)"),
    "~": re.compile(r"(?P<run>~~)(?=[^\s~])(?P<text>.+?)(?<=[^\s~])~~(?!~)"),
    "[": re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<url>[^()\s]+)\)"),
}
_MAY_BE_SPAN: Final = {
    "`": re.compile(r"`+(?:[^`].*)?"),
    "*": re.compile(r"\*{1,3}(?:[^\s*].*)?"),
    "_": re.compile(r"_{1,3}(?:[^\s_].*)?"),
    "~": re.compile(r"~(?:~(?:[^\s~].*)?)?"),
    "[": re.compile(r"\[[^\[\]]*(?:\](?:\([^()\s]*)?)?"),
}
_STYLES: Final = {1: EMPHASIS, 2: STRONG, 3: f"{STRONG};{EMPHASIS}"}


class Sink(Protocol):
    def put(self, text: str, style: str = "", is_whole: bool = False) -> None: ...


class Spans:
    """The spans of one line after the other: `feed` a line in pieces, then `end_line`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._held = ""
        """An opened span, or a backslash."""
        self.style = ""
        """The style of the whole line."""
        self._at = 0
        """How many characters of the line are decided."""
        self._barred: dict[str, int] = {}
        """Up to where a marker opens nothing: its span was found to have no end. What had waited is
        read again, at most once for each marker, so the cost stays linear."""
        self._before = " "

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._held:
                self._hold(text[at])
                at += 1
            elif plain := _PLAIN.match(text, at):
                self._text(plain[0])
                at = plain.end()
            else:
                self._open(text[at])
                at += 1

    def end_line(self) -> None:
        while self._held:
            self._resolve(is_over=True)
        self.style, self._before, self._at = "", " ", 0
        self._barred.clear()

    def _open(self, character: str) -> None:
        is_barred = self._at < self._barred.get(character, 0)
        is_inside_word = character in "*_" and self._before.isalnum()
        # The rest of a run of marks that opened nothing opens nothing either.
        if is_barred or is_inside_word or (character in "*_`~" and self._before == character):
            self._text(character)
        else:
            self._held = character

    def _hold(self, character: str) -> None:
        opener, last = self._held[0], self._held[-1]
        self._held += character
        if opener == "\\":
            self._escape()
        elif len(self._held) > LIMIT:
            self._resolve(is_over=True)
        elif last == opener or (opener == "[" and (last in ")]" or character in "[ \t")):
            # Elsewhere nothing is decided.
            self._resolve(is_over=False)

    def _escape(self) -> None:
        held, self._held = self._held, ""
        if len(held) > 1 and held[1] in _PUNCTUATION:
            self._at += 1
            self._text(held[1])
        else:
            self._text("\\")
            self.feed(held[1:])

    def _resolve(self, is_over: bool) -> None:
        """The span that waits: closed, still open, or none at all."""
        held, opener = self._held, self._held[0]
        if opener == "\\":
            self._escape()
            return
        found = _SPANS[opener].match(held)
        if found and (is_over or found.end() < len(held)):
            self._held = ""
            self._at += found.end()
            for text, style in _span(found, self.style):
                self._sink.put(text, style, is_whole=True)
            self._before = ")"
            self.feed(held[found.end() :])
        elif is_over or not _MAY_BE_SPAN[opener].fullmatch(held):
            self._held = ""
            run = len(held) - len(held.lstrip(opener)) if opener != "[" else 1
            self._barred[opener] = self._at + len(held)
            self._text(held[:run])
            self.feed(held[run:])

    def _text(self, text: str) -> None:
        self._at += len(text)
        self._before = text[-1]
        self._sink.put(text, self.style)


def styled(text: str, style: str = "") -> Iterator[tuple[str, str]]:
    """The parts of a text that is complete, each with its style."""
    at, before = 0, " "
    while at < len(text):
        opener = text[at]
        found = _SPANS[opener].match(text, at, at + LIMIT) if opener in _SPANS else None
        if found and not (opener in "*_" and before.isalnum()):
            yield from _span(found, style)
            at, before = found.end(), ")"
            continue
        if opener == "\\" and text[at + 1 : at + 2] in _PUNCTUATION:
            at += 1
            end = at + 1
        else:
            plain = _PLAIN.match(text, at)
            end = plain.end() if plain else at + 1
        yield text[at:end], style
        at, before = end, text[end - 1]


def _span(found: re.Match[str], style: str) -> Iterator[tuple[str, str]]:
    text, opener = found["text"], found[0][0]
    if opener == "`":
        is_padded = text[0] == text[-1] == " " and text.strip()
        yield (text[1:-1] if is_padded else text), _joined(style, CODE)
    elif opener == "[":
        yield from styled(text, _joined(style, LINK))
        yield f" ({found['url']})", _joined(style, QUIET)
    elif opener == "~":
        yield from styled(text, _joined(style, DELETED))
    else:
        yield from styled(text, _joined(style, _STYLES[len(found["run"])]))


def _joined(*styles: str) -> str:
    return ";".join(filter(None, styles))
