"""Texts with marked sentences: the golden rules and our own, and their score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

DATA = Path(__file__).parents[2] / "crates" / "torvyn-text" / "data"
GOLDEN_RULES = DATA / "golden_rules.txt"
HELD_OUT = DATA / "development_sentences.txt"

Segment = Callable[[str, str], list[str]]
"""A language and a text to the sentences of the text."""


def cases(path: Path) -> Iterator[tuple[str, list[str]]]:
    """A language and the sentences of one text, white space after them included."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            language, marked = line.split("\t")
            yield language, marked.replace("\\n", "\n").split("|")


def scores(path: Path, segment: Segment) -> dict[str, tuple[int, int]]:
    """Per language: texts whose sentences were all found, and texts. White space is ignored."""
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for language, expected in cases(path):
        sentences = [sentence.strip() for sentence in segment(language, "".join(expected))]
        stripped = [sentence.strip() for sentence in expected]
        found[language] += [sentence for sentence in sentences if sentence] == stripped
        total[language] += 1
    return {language: (found[language], total[language]) for language in total}
