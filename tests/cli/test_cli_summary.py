"""The summary line: what was produced, filtered and emitted, in the units of the components."""

from __future__ import annotations

import pytest

import torvyn
from torvyn._cli.statistics import singular, summary_line
from torvyn.components import Blocklist
from torvyn.testing import VARIANTS, as_variant

UNITS = {
    "tokens": "token",
    "sentences": "sentence",
    "entries": "entry",
    "batches": "batch",
    "matches": "match",
    "classes": "class",
    "boxes": "box",
    "responses": "response",
    "caches": "cache",
    "pies": "pie",
    "series": "series",
    "sensor readings": "sensor reading",
    "people": "person",
    "data": "data",
    "glass": "glass",
}
BLOCKED = {"words": ["blocked_word"], "mode": "stream"}
SPLIT = ["The", " bloc", "ked_word", " was", " blocked", "_word", "."]


def line_of(tokens: list[str], *stages: torvyn.Component, unit: str = "tokens") -> str:
    source, sink = torvyn.source(tokens), torvyn.sink(lambda element: None)
    source.unit = sink.unit = unit
    return summary_line(torvyn.Flow(source, *stages, sink).run())


@pytest.mark.parametrize("unit", UNITS)
def test_one_element_has_a_singular_unit(unit: str) -> None:
    assert singular(unit) == UNITS[unit]


@pytest.mark.promise("tokens.summary")
@pytest.mark.parametrize("unit", ["tokens", "entries"])
def test_each_unit_is_singular_for_one_and_plural_for_others(unit: str) -> None:
    one = UNITS[unit]
    assert line_of(["a"], unit=unit) == f"1 {one} produced | 1 {one} emitted"
    assert line_of(["a", "b"], unit=unit) == f"2 {unit} produced | 2 {unit} emitted"
    nothing = torvyn.filter(lambda element: False)
    assert line_of(["a"], nothing, unit=unit) == f"1 {one} produced | 1 filtered | 0 {unit} emitted"


@pytest.mark.promise("tokens.summary")
@pytest.mark.parametrize("variant", VARIANTS)
def test_words_that_a_guard_drops_are_filtered(variant: str) -> None:
    tokens = ["The ", "blocked_word", " was ", "blocked_word", "."]
    for config in (BLOCKED, {"words": ["blocked_word"]}):
        line = line_of(tokens, as_variant(Blocklist(config), variant))
        assert line == "5 tokens produced | 2 filtered | 3 tokens emitted", config


@pytest.mark.parametrize("variant", ["python", "thread", "native"])
def test_a_word_that_is_a_part_of_a_token_is_filtered_too(variant: str) -> None:
    line = line_of(["a", " blocked_word", " b"], as_variant(Blocklist(BLOCKED), variant))
    assert line == "3 tokens produced | 1 filtered | 4 tokens emitted"


@pytest.mark.promise("tokens.summary")
def test_a_word_that_is_split_over_tokens_counts_once() -> None:
    assert " | 2 filtered | " in line_of(SPLIT, Blocklist(BLOCKED))


@pytest.mark.parametrize("change", [{"action": "replace"}, {"policy": "shadow"}])
def test_a_word_that_is_not_dropped_is_not_filtered(change: dict[str, str]) -> None:
    assert "filtered" not in line_of(SPLIT, Blocklist({**BLOCKED, **change}))
