"""The four components of the example, called directly without a reactor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torvyn
from torvyn._link.component_library import instantiate
from torvyn._link.project_linker import ProjectLinker

EXAMPLE = Path(__file__).parents[2] / "examples" / "token-streaming" / "Torvyn.toml"

PRINTED = """\
[output-sink] sentence 0: The quick brown fox jumped over the lazy dog.
[output-sink] sentence 1: The was filtered.
[output-sink] sentence 2: Torvyn handles streaming tokens.
[output-sink] Stream complete.
"""


def components() -> list[Any]:
    made = []
    for node in ProjectLinker.open(EXAMPLE, environ={}).plan().nodes:
        component = instantiate(node.component)
        component.init(node.config)
        made.append(component)
    return made


@pytest.mark.promise("tokens.sink")
def test_twenty_tokens_become_three_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    source, guard, aggregator, sink = components()
    tokens = [torvyn.Element(token) for token in source]
    passed = [token for token in tokens if guard.evaluate(token)]
    sentences = [sentence for token in passed if (sentence := aggregator.ingest(token))]
    for sentence in sentences + aggregator.flush():
        sink.push(torvyn.Element(sentence))
    sink.complete(torvyn.End())

    assert (len(tokens), len(passed), len(sentences)) == (20, 19, 3)
    assert capsys.readouterr().out == PRINTED


@pytest.mark.promise("tokens.block-list", "tokens.unicode-words")
def test_the_words_of_the_filter_are_a_list_with_commas() -> None:
    guard = components()[1]
    guard.init(" quick ,LAZY, привет")

    tokens = ["The", " Quick", " lazy ", "привет", " мир", " quickly"]
    passed = [token for token in tokens if guard.evaluate(torvyn.Element(token))]
    assert passed == ["The", " мир", " quickly"]


@pytest.mark.promise("tokens.not-utf8")
def test_bytes_that_are_no_text_are_invalid_input() -> None:
    _, guard, aggregator, sink = components()

    for call in (guard.evaluate, aggregator.ingest, sink.push):
        with pytest.raises(torvyn.InvalidInput, match="not UTF-8"):
            call(torvyn.Element(b"\xff"))


@pytest.mark.promise("tokens.flush", "tokens.no-boundary")
def test_an_unfinished_sentence_is_flushed_once() -> None:
    aggregator = components()[2]
    aggregator.ingest(torvyn.Element(" half a sentence"))

    assert [aggregator.flush(), aggregator.flush()] == [["half a sentence"], []]
