"""`blocklist` and `rate-limit`: what passes, what is dropped, and that it is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torvyn import Element
from torvyn.components import Blocklist, RateLimit
from torvyn.errors import ContractError


def passed(component, texts):
    return [text for text in texts if component.evaluate(Element(text)) is True]


@pytest.mark.promise("tokens.block-list")
def test_blocklist_drops_whole_tokens_whatever_their_case_and_space(start):
    component = start(Blocklist, "blocked_word, Secret")
    tokens = ["The", " blocked_word", "\tSECRET\u3000", "secrets", "block", "ed_word", ""]
    assert passed(component, tokens) == ["The", "secrets", "block", "ed_word", ""]
    assert component.filtered == 2


@pytest.mark.promise("tokens.unicode-words")
def test_blocklist_ignores_case_in_ascii_letters_only(start):
    component = start(Blocklist, ["Ärger", "straße"])
    assert passed(component, ["ÄRGER", "ärger", "STRAßE", "STRASSE"]) == ["ärger", "STRASSE"]


def test_blocklist_trims_white_space_and_no_other_controls(start):
    component = start(Blocklist, "spam")
    assert passed(component, ["\x0bspam", "\x1cspam"]) == ["\x1cspam"]


def test_blocklist_without_words_passes_everything_only_if_asked_to(start):
    config = {"words": " , ", "allow_empty": True}
    assert passed(start(Blocklist, config), ["", " ", "a"]) == ["", " ", "a"]


def test_blocklist_takes_bytes(start):
    component = start(Blocklist, "spam")
    assert component.evaluate(Element(b" SPAM")) is False
    assert component.evaluate(Element(b"\xff\xfe")) is True


@given(st.text(), st.text())
def test_blocklist_drops_a_word_as_it_was_listed(word, other):
    component = Blocklist()
    component.init({"words": [word], "allow_empty": True})
    assert component.evaluate(Element(word.strip())) is (not word.strip())
    if other.strip().casefold() != word.strip().casefold():
        assert component.evaluate(Element(other)) is True


def test_rate_limit_passes_a_burst_and_then_the_rate(start, clock):
    component = start(RateLimit, {"rate": 10, "burst": 3})
    assert len(passed(component, "abcde")) == 3
    clock.now_s += 0.1
    assert len(passed(component, "ab")) == 1
    clock.now_s += 60
    assert len(passed(component, "abcde")) == 3
    assert component.filtered == 2 + 1 + 2


def test_rate_limit_has_a_burst_of_its_rate_by_default(start):
    assert len(passed(start(RateLimit, "4"), "abcdef")) == 4
    assert len(passed(start(RateLimit, {"rate": 0.5, "per": "1m"}), "abc")) == 1


def test_rate_limit_misses_no_permit_by_rounding(start, clock):
    component = start(RateLimit, {"rate": 10, "burst": 1})
    passes = 0
    for n in range(1000):
        clock.now_s = 1000.0 + n / 10
        passes += component.evaluate(Element("x"))
    assert passes == 1000


@pytest.mark.parametrize("config", ["0", "-3", {"rate": 1, "per": 0}, "", "fast"])
def test_rate_limit_refuses_a_rate_of_nothing(start, config):
    with pytest.raises(ContractError):
        start(RateLimit, config)


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.lists(st.floats(0, 2), min_size=1, max_size=200),
)
def test_rate_limit_never_passes_more_than_the_burst_and_the_rate_allow(rate, burst, gaps_s):
    now_s = [0.0]
    component = RateLimit()
    component._clock = lambda: now_s[0]
    component.init({"rate": rate, "burst": burst})
    times = []
    for gap_s in gaps_s:
        now_s[0] += gap_s
        if component.evaluate(Element("x")):
            times.append(now_s[0])
    for first, start_s in enumerate(times):
        for count, end_s in enumerate(times[first:], 1):
            assert count <= burst + rate * (end_s - start_s) + 1e-6
