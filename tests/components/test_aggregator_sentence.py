"""`sentence`: the native splitter behind the role of an aggregator."""

import pytest

from torvyn import Element, Flow, text
from torvyn.components.builtin.aggregator_sentence import LANGUAGES, Sentence
from torvyn.components.builtin.source_scripted import DEFAULT_TOKENS
from torvyn.errors import ContractError


def sentences(component, tokens):
    answers = [component.ingest(Element(token)) for token in tokens]
    return [one for answer in [*answers, component.flush()] for one in answer]


@pytest.mark.parametrize(
    "whole",
    [
        "Dr. Smith paid $29. Next.",
        "See e.g. section 3.1. Then stop.",
        "My birthday is Jan 1, 1980. Another sentence.",
        "これはペンです。次。",
        'Wait... what? "Yes!" she said.',
    ],
)
def test_written_language_is_cut_at_its_sentences_however_it_arrives(start, whole):
    for tokens in ([whole], list(whole)):
        found = sentences(start(Sentence), tokens)
        assert len(found) == 2
        assert "".join(found) == whole


@pytest.mark.promise("tokens.blank-rest", "tokens.built-ins")
def test_simple_mode_cuts_after_marks_and_trims(start):
    assert sentences(start(Sentence, "simple"), [*DEFAULT_TOKENS, " "]) == [
        "The quick brown fox jumped over the lazy dog.",
        "The blocked_word was filtered.",
        "Torvyn handles streaming tokens.",
    ]


def test_what_waits_is_sent_after_a_silence(start, clock):
    component = start(Sentence, {"idle_flush": "1s"})
    assert component.ingest(Element("Well")) == []
    clock.now_s += 0.5
    assert component.ingest(Element(", then")) == []
    clock.now_s += 1.5
    assert component.ingest(Element(" more")) == ["Well, then"]
    assert component.flush() == [" more"]


def test_a_least_above_the_most_is_refused(start):
    with pytest.raises(ContractError, match="`min` is greater than `max`"):
        start(Sentence, {"min": 9, "max": 5})


def test_an_unknown_language_is_refused_with_the_known_ones(start):
    with pytest.raises(ContractError, match="`language` 'english' is not supported") as caught:
        start(Sentence, {"language": "english"})
    assert "am, ar, bg" in caught.value.render()


def test_the_component_knows_the_languages_of_the_splitter():
    assert list(LANGUAGES) == text.SentenceSplitter.languages()


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("de", ["Zimmer 3. Stock ist gut. ", "Ja."]),
        ("en", ["Zimmer 3. ", "Stock ist gut. ", "Ja."]),
    ],
)
def test_the_language_decides_how_a_number_is_read(start, language, expected):
    whole = "".join(expected)
    assert sentences(start(Sentence, {"language": language}), list(whole)) == expected
    # The class itself runs as a native stage, a class of one's own in Python.
    for component in (Sentence, type("Own", (Sentence,), {})):
        assert [*Flow([*whole], component({"language": language})).text()] == expected
