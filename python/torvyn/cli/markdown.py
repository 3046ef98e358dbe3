"""Markdown for a terminal, while it streams.

Characters go in, in pieces of any size; text with styles comes out, the same for every way to cut
it. What may be a marker waits until it is known to be one, at most to the end of its line or for
`LIMIT` characters; what has left is never drawn again. No control character of the text gets out.
"""

from __future__ import annotations

import re
from typing import Final

from torvyn.text.visible import visible

LIMIT: Final = 160
"""How long an opened span waits for its end; one that has none is text like any other."""

STRONG: Final = "1"
EMPHASIS: Final = "3"
CODE: Final = "36"
LINK: Final = "4"
QUIET: Final = "2"
TITLE: Final = "1;4"

_PLAIN: Final = re.compile(r"[^\n`*_\[\\]+")
_SPECIAL: Final = frozenset("`*_[\\")
_PUNCTUATION: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

_BLOCK: Final = re.compile(r"(?P<indent>[ \t]*)(?:>|(?P<mark>#{1,6}|[-*+]|\d{1,9}[.)]) )")
_FENCE: Final = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[^`\n]*\n")
_RULE: Final = re.compile(r"[ \t]*([-*_])\1{2,}[ \t]*\n")
_MAY_BE_BLOCK: Final = re.compile(
    r"[ \t]{0,40}(?:#{0,6}|[-*+]|\d{1,9}[.)]?|~{1,40}|`{1,2}|`{3,40}[^`\n]{0,60}"
    r"|([-*_])\1{0,79}[ \t]{0,9})"
)
_CLOSED: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\n")
_MAY_CLOSE: Final = re.compile(r"[ \t]{0,40}(?:`{0,40}|~{0,40})[ \t]{0,9}")

_SPANS: Final = {
    "`": re.compile(r"(?P<run>`+)(?!`)(?P<text>.+?)(?<!`)(?P=run)(?!`)"),
    "*": re.compile(r"(?P<run>\*{1,3})(?=[^\s*])(?P<text>.+?)(?<=[^\s*])(?P=run)(?!\*)"),
    "_": re.compile(r"(?P<run>_{1,3})(?=[^\s_])(?P<text>.+?)(?<=[^\s_])(?P=run)(?!\w)"),
    "[": re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<url>[^()\s]+)\)"),
}
_MAY_BE_SPAN: Final = {
    "`": re.compile(r"`+(?:[^`].*)?"),
    "*": re.compile(r"\*{1,3}(?:[^\s*].*)?"),
    "_": re.compile(r"_{1,3}(?:[^\s_].*)?"),
    "[": re.compile(r"\[[^\[\]]*(?:\](?:\([^()\s]*)?)?"),
}
_STYLES: Final = {1: EMPHASIS, 2: STRONG, 3: f"{STRONG};{EMPHASIS}"}


class Markdown:
    """The renderer of one answer: `feed` its text, then `finish`."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._lead: str | None = ""
        """The beginning of a line as long as it may be the mark of a block; None after that."""
        self._held = ""
        """An opened span, or a backslash."""
        self._at = 0
        """How many characters of the line are decided."""
        self._barred: dict[str, int] = {}
        """Up to where a marker opens nothing: its span was found to have no end. What had waited is
        read again, at most once for each marker, so the cost stays linear."""
        self._fence: str | None = None
        self._line_style = ""
        self._style = ""
        self._before = "\n"
        self._swallows_space = False
        self._is_quote = False

    def feed(self, text: str) -> str:
        """What can be shown now."""
        self._read(visible(text))
        return self._taken()

    def finish(self) -> str:
        """The rest; all styles are off after it."""
        if self._lead:
            lead, self._lead = self._lead, None
            if self._fence is None:
                self._inline(lead)
            else:
                self._emit(lead, CODE)
        while self._held:
            self._resolve(is_over=True)
        self._restyle("")
        return self._taken()

    def _taken(self) -> str:
        out, self._out = "".join(self._out), []
        return out

    def _read(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self._lead is not None:
                self._begin(text[at])
                at += 1
            else:
                end = text.find("\n", at) + 1 or len(text)
                if self._fence is None:
                    self._inline(text[at:end])
                else:
                    self._code(text[at:end])
                at = end

    # The beginning of a line

    def _begin(self, character: str) -> None:
        if self._swallows_space:
            self._swallows_space = False
            if character == " ":
                return
        assert self._lead is not None
        self._lead = lead = self._lead + character
        if self._fence is not None:
            self._begin_code(lead)
        elif found := _BLOCK.fullmatch(lead):
            self._open_block(found)
        elif not self._is_quote and (found := _FENCE.fullmatch(lead)):
            self._fence = found["fence"]
            self._end_line(lead[:-1], QUIET)
        elif _RULE.fullmatch(lead):
            self._end_line("─" * 24, QUIET)
        elif not _MAY_BE_BLOCK.fullmatch(lead):
            self._lead = None
            self._read(lead)

    def _open_block(self, found: re.Match[str]) -> None:
        mark = found["mark"]
        self._emit(found["indent"], self._line_style)
        if mark is None:
            self._emit("│ ", QUIET)
            self._lead = ""
            self._swallows_space = self._is_quote = True
            return
        if mark[0] == "#":
            self._line_style = TITLE if len(mark) == 1 else STRONG
        else:
            self._emit("• " if mark in "-*+" else f"{mark} ", self._line_style)
        self._lead = None
        self._before = " "

    def _begin_code(self, lead: str) -> None:
        closed = _CLOSED.fullmatch(lead)
        if closed and closed[1].startswith(self._fence or ""):
            self._fence = None
            self._end_line(lead[:-1], QUIET)
        elif closed or not _MAY_CLOSE.fullmatch(lead):
            self._lead = None
            self._code(lead)

    def _code(self, text: str) -> None:
        if text.endswith("\n"):
            self._end_line(text[:-1], CODE)
        else:
            self._emit(text, CODE)

    # Inside a line

    def _inline(self, text: str) -> None:
        """A line, or a part of one: a line end is its last character."""
        at = 0
        while at < len(text):
            if self._held:
                self._hold(text[at])
                at += 1
            elif plain := _PLAIN.match(text, at):
                self._text(plain[0])
                at = plain.end()
            elif text[at] == "\n":
                self._end_line("", "")
                at += 1
            else:
                self._open_span(text[at])
                at += 1

    def _open_span(self, character: str) -> None:
        is_barred = self._at < self._barred.get(character, 0)
        is_inside_word = character in "*_" and (self._before.isalnum() or self._before == character)
        if is_barred or is_inside_word or (character == "`" and self._before == "`"):
            self._text(character)
        else:
            self._held = character

    def _hold(self, character: str) -> None:
        opener, last = self._held[0], self._held[-1]
        self._held += character
        if opener == "\\":
            self._escape()
        elif character == "\n" or len(self._held) > LIMIT:
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
            self._inline(held[1:])

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
            self._span(found, self._line_style)
            self._inline(held[found.end() :])
        elif is_over or not _MAY_BE_SPAN[opener].fullmatch(held):
            self._held = ""
            run = len(held) - len(held.lstrip(opener)) if opener != "[" else 1
            self._barred[opener] = self._at + len(held)
            self._text(held[:run])
            self._inline(held[run:])

    def _span(self, found: re.Match[str], style: str) -> None:
        text, opener = found["text"], found[0][0]
        if opener == "`":
            stripped = text[1:-1] if text[0] == text[-1] == " " and text.strip() else text
            self._emit(stripped, _joined(style, CODE))
        elif opener == "[":
            self._spans(text, _joined(style, LINK))
            self._emit(f" ({found['url']})", _joined(style, QUIET))
        else:
            self._spans(text, _joined(style, _STYLES[len(found["run"])]))
        self._before = ")"

    def _spans(self, text: str, style: str) -> None:
        """The spans inside of a span, which is whole."""
        at = 0
        while at < len(text):
            found = _SPANS[text[at]].match(text, at) if text[at] in _SPANS else None
            if found and not (text[at] in "*_" and self._before.isalnum()):
                self._span(found, style)
                at = found.end()
            elif text[at] == "\\" and text[at + 1 : at + 2] in _PUNCTUATION:
                self._emit(text[at + 1], style)
                at += 2
            else:
                plain = _PLAIN.match(text, at)
                end = plain.end() if plain else at + 1
                self._emit(text[at:end], style)
                at = end

    # What leaves

    def _text(self, text: str) -> None:
        self._at += len(text)
        self._emit(text, self._line_style)

    def _end_line(self, text: str, style: str) -> None:
        self._emit(text, style)
        self._restyle("")
        self._out.append("\n")
        self._lead, self._line_style, self._before = "", "", "\n"
        self._is_quote = False
        self._at = 0
        self._barred.clear()

    def _emit(self, text: str, style: str) -> None:
        if text:
            self._restyle(style)
            self._out.append(text)
            self._before = text[-1]

    def _restyle(self, style: str) -> None:
        if style != self._style:
            if self._style:
                self._out.append("\x1b[0m")
            if style:
                self._out.append(f"\x1b[{style}m")
            self._style = style


def _joined(*styles: str) -> str:
    return ";".join(filter(None, styles))
