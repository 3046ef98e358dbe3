"""Streaming Markdown within a line: emphasis, code, links and escapes.

An open span is buffered until its end, the end of the line or `LIMIT` characters; without an end
it is plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

LIMIT: Final = 160
"""The longest span, in characters."""

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
    """Parses spans line by line: `feed` a line in pieces, then call `end_line`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._open_span = ""
        """The text of an open span, or a backslash."""
        self.style = ""
        """The style of the whole line."""
        self._at = 0
        """How many characters of the line are parsed."""
        self._barred: dict[str, int] = {}
        """Up to where a marker opens no span, because an earlier one had no end. Buffered text is
        parsed again at most once per marker, so the cost stays linear."""
        self._before = " "

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._open_span:
                self._hold(text[at])
                at += 1
            elif plain := _PLAIN.match(text, at):
                self._text(plain[0])
                at = plain.end()
            else:
                self._open(text[at])
                at += 1

    def end_line(self) -> None:
        while self._open_span:
            self._resolve(is_over=True)
        self.style, self._before, self._at = "", " ", 0
        self._barred.clear()

    def _open(self, character: str) -> None:
        is_barred = self._at < self._barred.get(character, 0)
        is_inside_word = character in "*_" and self._before.isalnum()
        # If the first mark of a run opens no span, the others do not either.
        if is_barred or is_inside_word or (character in "*_`~" and self._before == character):
            self._text(character)
        else:
            self._open_span = character

    def _hold(self, character: str) -> None:
        opener, last = self._open_span[0], self._open_span[-1]
        self._open_span += character
        if opener == "\\":
            self._escape()
        elif len(self._open_span) > LIMIT:
            self._resolve(is_over=True)
        elif last == opener or (opener == "[" and (last in ")]" or character in "[ \t")):
            # At other characters the span cannot end.
            self._resolve(is_over=False)

    def _escape(self) -> None:
        text, self._open_span = self._open_span, ""
        if len(text) > 1 and text[1] in _PUNCTUATION:
            self._at += 1
            self._text(text[1])
        else:
            self._text("\\")
            self.feed(text[1:])

    def _resolve(self, is_over: bool) -> None:
        """Decides whether the buffered span is closed, still open, or plain text."""
        text, opener = self._open_span, self._open_span[0]
        if opener == "\\":
            self._escape()
            return
        span = _SPANS[opener].match(text)
        if span and (is_over or span.end() < len(text)):
            self._open_span = ""
            self._at += span.end()
            for piece, style in _styled_span(span, self.style):
                self._sink.put(piece, style, is_whole=True)
            self._before = ")"
            self.feed(text[span.end() :])
        elif is_over or not _MAY_BE_SPAN[opener].fullmatch(text):
            self._open_span = ""
            run = len(text) - len(text.lstrip(opener)) if opener != "[" else 1
            self._barred[opener] = self._at + len(text)
            self._text(text[:run])
            self.feed(text[run:])

    def _text(self, text: str) -> None:
        self._at += len(text)
        self._before = text[-1]
        self._sink.put(text, self.style)


def styled_pieces(text: str, style: str = "") -> Iterator[tuple[str, str]]:
    """The pieces of a complete text, each with its style."""
    at, before = 0, " "
    while at < len(text):
        opener = text[at]
        span = _SPANS[opener].match(text, at, at + LIMIT) if opener in _SPANS else None
        if span and not (opener in "*_" and before.isalnum()):
            yield from _styled_span(span, style)
            at, before = span.end(), ")"
            continue
        if opener == "\\" and text[at + 1 : at + 2] in _PUNCTUATION:
            at += 1
            end = at + 1
        else:
            plain = _PLAIN.match(text, at)
            end = plain.end() if plain else at + 1
        yield text[at:end], style
        at, before = end, text[end - 1]


def _styled_span(span: re.Match[str], style: str) -> Iterator[tuple[str, str]]:
    text, opener = span["text"], span[0][0]
    if opener == "`":
        is_padded = text[0] == text[-1] == " " and text.strip()
        yield (text[1:-1] if is_padded else text), _join_styles(style, CODE)
    elif opener == "[":
        yield from styled_pieces(text, _join_styles(style, LINK))
        yield f" ({span['url']})", _join_styles(style, QUIET)
    elif opener == "~":
        yield from styled_pieces(text, _join_styles(style, DELETED))
    else:
        yield from styled_pieces(text, _join_styles(style, _STYLES[len(span["run"])]))


def _join_styles(*styles: str) -> str:
    return ";".join(filter(None, styles))
