"""Single-line mistakes in a manifest: what people do to a line when they edit it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_KEY_VALUE: Final = re.compile(r"(?P<key>\s*[\w.\"'-]+\s*=\s*)(?P<value>.*?)\s*$")
_WORD: Final = re.compile(r"[A-Za-z]{3,}")


class Mutant(NamedTuple):
    line: int
    """From 1 on."""
    what: str
    text: str
    """The whole manifest."""

    def __str__(self) -> str:
        return f"line {self.line} {self.what}"


def mutants_of(text: str) -> Iterator[Mutant]:
    """All mutants of a manifest: each has one line that is wrong, or at least another one."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        for what, instead in _versions(line):
            mutated = "\n".join((*lines[:at], *instead, *lines[at + 1 :])) + "\n"
            yield Mutant(at + 1, what, mutated)


def _versions(line: str) -> Iterator[tuple[str, list[str]]]:
    yield "deleted", []
    yield "doubled", [line, line]
    found = _KEY_VALUE.fullmatch(line)
    if found is None:
        yield from _misspelt(line, "misspelt")
        yield "without its last character", [line.rstrip()[:-1]]
        return
    key, value = found["key"], found["value"]
    for what, (new_key,) in _misspelt(key, "with a misspelt key"):
        yield what, [new_key + value]
    for what, (new_value,) in _misspelt(value, "with a misspelt value"):
        yield what, [key + new_value]
    yield "without a value", [key]
    for new_value in ('""', "[]", "{}", '"7"', "7", "-1", "1.5", "true", '["a"]', '{ a = "b" }'):
        if new_value != value:
            yield f"with the value {new_value}", [key + new_value]


def _misspelt(text: str, what: str) -> Iterator[tuple[str, list[str]]]:
    """The text without the third letter of its longest word."""
    words = sorted(_WORD.finditer(text), key=lambda word: -len(word[0]))
    if words:
        at = words[0].start() + 2
        yield what, [text[:at] + text[at + 1 :]]
