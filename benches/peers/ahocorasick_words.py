"""pyahocorasick as a finder of whole words, with the two methods of `re.Pattern` that are used.

It has no streaming mode, so it works on a window like `re`. It is the fastest automaton for Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    first: int
    last: int

    def start(self) -> int:
        return self.first

    def end(self) -> int:
        return self.last


class WordFinder:
    def __init__(self, words: list[str]) -> None:
        import ahocorasick

        self._automaton = ahocorasick.Automaton()
        for word in words:
            self._automaton.add_word(word.casefold(), len(word))
        self._automaton.make_automaton()

    def finditer(self, text: str) -> Iterator[Span]:
        for last, length in self._automaton.iter(text.casefold()):
            first, after = last + 1 - length, last + 1
            if not text[:first][-1:].isalnum() and not text[after : after + 1].isalnum():
                yield Span(first, after)

    def sub(self, by: str | Callable[..., str], text: str) -> str:
        out, at = [], 0
        for span in self.finditer(text):
            out.append(text[at : span.first] + str(by))
            at = span.last
        return "".join(out) + text[at:]
