"""The number of golden rules and held-out texts that pass, per language."""

from __future__ import annotations

from sentence_corpora import GOLDEN_RULES, HELD_OUT, cases, scores

from torvyn.text import SentenceSplitter

# Arabic commas and colons end no sentence here, and a quotation of several sentences is cut.
GOLDEN = {
    "en": (46, 48),
    "ar": (2, 5),
    "sk": (4, 5),
}
# Ambiguous without understanding: `Well... I`, an emoji after a space, a German number before a
# noun; and titles of two letters in a text too short to show its language.
HELD_OUT_SCORES = {
    "en": (73, 76),
    "de": (14, 15),
    "hu": (0, 1),
    "ro": (0, 1),
}


def detect(language: str, text: str) -> list[str]:
    splitter = SentenceSplitter()
    return [*splitter.put(text), splitter.finish() or ""]


def given(language: str, text: str) -> list[str]:
    splitter = SentenceSplitter(language=language)
    return [*splitter.put(text), splitter.finish() or ""]


def missed(found: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    return {language: score for language, score in found.items() if score[0] < score[1]}


def test_golden_rules_hold_when_the_language_is_detected() -> None:
    found = scores(GOLDEN_RULES, detect)
    assert missed(found) == GOLDEN
    assert found["en"][1] == 48
    assert sum(total for _, total in found.values()) == 48 + 116


def test_golden_rules_hold_when_the_language_is_given() -> None:
    # `1. The first item 2. The second` is not a list where numbers with a dot are ordinals.
    assert missed(scores(GOLDEN_RULES, given)) == GOLDEN | {"da": (45, 46)}


def test_held_out_texts_hold_when_the_language_is_detected() -> None:
    assert missed(scores(HELD_OUT, detect)) == HELD_OUT_SCORES


def test_every_split_of_a_text_gives_the_same_sentences_and_loses_nothing() -> None:
    for path in (GOLDEN_RULES, HELD_OUT):
        for language, expected in cases(path):
            text = "".join(expected)
            whole = detect(language, text)
            assert "".join(whole) == text
            for size in (1, 2, 3, 7):
                splitter = SentenceSplitter()
                pieces = [text[start : start + size] for start in range(0, len(text), size)]
                parts = [sentence for piece in pieces for sentence in splitter.put(piece)]
                assert [*parts, splitter.finish() or ""] == whole
