"""Which sentences are found: the golden rules and our own texts, compared with two libraries.

The peers get each text as a whole and its language. Torvyn gets one character at a time, with the
language detected and with the language given. White space is not compared. Torvyn was developed on
both sets, so its scores say less about other texts than those of the peers.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

from benches.peers import distribution_version, pysbd_sentences, sentencex_sentences
from benches.report import Report, Table

DATA = Path(__file__).parents[1] / "crates" / "torvyn-text" / "data"
TARGETS = {"English": 44, "others": 100}

Segment = Callable[[str, str], list[str]]


def table(report: Report) -> Table:
    columns = ("entry", "golden rules, English", "golden rules, others", "our development texts")
    result = Table(columns, title="Which sentences are found?")
    report.data["accuracy"] = accuracy = {}
    for name, segment in _entries(report).items():
        golden = [*_outcomes(DATA / "golden_rules.txt", segment)]
        english = [found for language, found in golden if language == "en"]
        others = [found for language, found in golden if language != "en"]
        own = [found for _, found in _outcomes(DATA / "development_sentences.txt", segment)]
        accuracy[name] = [sum(english), sum(others), sum(own)]
        goals = ("", "") if not name.startswith("torvyn") else _verdicts(sum(english), sum(others))
        cells = [
            f"{sum(english)} of {len(english)}{goals[0]}",
            f"{sum(others)} of {len(others)}{goals[1]}",
            f"{sum(own)} of {len(own)}",
        ]
        result.rows.append([name, *cells])
    return result


def _verdicts(english: int, others: int) -> tuple[str, str]:
    def verdict(found: int, target: int) -> str:
        return f" (>= {target}: {'met' if found >= target else 'NOT met'})"

    return verdict(english, TARGETS["English"]), verdict(others, TARGETS["others"])


def _entries(report: Report) -> dict[str, Segment]:
    entries: dict[str, Segment] = {
        "torvyn, language detected": lambda language, text: _torvyn("auto", text),
        "torvyn, language given": _torvyn,
    }
    for name, segment in (
        ("sentencex", sentencex_sentences.segment),
        ("pysbd", pysbd_sentences.segment),
    ):
        if importlib.util.find_spec(name) is None:
            report.left_out[name] = "not installed"
        else:
            report.versions[name] = f"{name} {distribution_version(name)}"
            entries[name] = segment
    return entries


def _torvyn(language: str, text: str) -> list[str]:
    from torvyn.text import SentenceSplitter

    splitter = SentenceSplitter(language=language)
    sentences = [sentence for character in text for sentence in splitter.put(character)]
    return [*sentences, splitter.finish() or ""]


def _outcomes(path: Path, segment: Segment) -> Iterator[tuple[str, bool]]:
    """The language of each text, and whether all its sentences are found."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        language, marked = line.split("\t")
        expected = marked.replace("\\n", "\n").split("|")
        sentences = [sentence.strip() for sentence in segment(language, "".join(expected))]
        stripped = [sentence.strip() for sentence in expected]
        yield language, [sentence for sentence in sentences if sentence] == stripped
