"""The labelled lines for `redact`, and how well a recogniser finds the labels.

`data/redaction/README.md` explains the format. Recall is the share of labelled spans that are
fully covered by spans of their kind; precision is the share of found spans that overlap a labelled
one of their kind.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

DATA: Final = Path(__file__).parent / "data" / "redaction"
MARK: Final = re.compile(r"\[\[([a-z-]+):(.*?)\]\]", re.DOTALL)
ESCAPES: Final = {"{nl}": "\n", "{nbsp}": "\u00a0", "{nnbsp}": "\u202f", "{|}": ""}


class Span(NamedTuple):
    kind: str
    start: int
    end: int


class Line(NamedTuple):
    text: str
    spans: tuple[Span, ...]


Recogniser = Callable[[str], Iterable[Span]]


@dataclass
class Score:
    """Counts by kind; `exact` counts found spans that equal their label."""

    marked: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    exact: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[Span, str]] = field(default_factory=list)
    wrong: list[tuple[Span, str]] = field(default_factory=list)

    @property
    def recall(self) -> float:
        return self.covered.total() / max(self.marked.total(), 1)

    @property
    def precision(self) -> float:
        return self.right.total() / max(self.found.total(), 1)


def load(part: str) -> list[Line]:
    """The lines of a part, `tuning` or `held_out`, those with marks first."""
    names = (f"{part}_positive.txt", f"{part}_negative.txt")
    texts = ((DATA / name).read_text(encoding="utf-8") for name in names)
    return [parse(line) for text in texts for line in text.splitlines() if line]


def parse(line: str) -> Line:
    for escape, meaning in ESCAPES.items():
        line = line.replace(escape, meaning)
    text, spans, end = "", [], 0
    for mark in MARK.finditer(line):
        text += line[end : mark.start()]
        spans.append(Span(mark[1], len(text), len(text) + len(mark[2])))
        text += mark[2]
        end = mark.end()
    return Line(text + line[end:], tuple(spans))


def judge(lines: Sequence[Line], recognise: Recogniser, kinds: Iterable[str]) -> Score:
    """Compares found spans with labels, for these kinds only."""
    score, wanted = Score(), set(kinds)
    for line in lines:
        marked = [span for span in line.spans if span.kind in wanted]
        found = [span for span in recognise(line.text) if span.kind in wanted]
        for span in marked:
            hit = any(_covers(one, span) for one in found)
            score.marked[span.kind] += 1
            score.covered[span.kind] += hit
            if not hit:
                score.missed.append((span, line.text))
        for one in found:
            hit = any(_overlap(one, span) for span in marked)
            score.found[one.kind] += 1
            score.right[one.kind] += hit
            score.exact[one.kind] += one in marked
            if not hit:
                score.wrong.append((one, line.text))
    return score


def _covers(found: Span, marked: Span) -> bool:
    return found.kind == marked.kind and found.start <= marked.start and marked.end <= found.end


def _overlap(found: Span, marked: Span) -> bool:
    return found.kind == marked.kind and found.start < marked.end and marked.start < found.end
