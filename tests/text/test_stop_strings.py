"""Stop strings: the same end for every split, all the text before the stop and none of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import sample

from torvyn.errors import InvalidInput
from torvyn.text import StopStrings

ALPHABET = "ab\u00e9\U0001f600"


def naive(text, stops, include):
    """Checks every prefix; the first that ends in a stop decides."""
    for end in range(len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return text[: end if include else end - len(stop)], stop
    return text, None


def streamed(pieces, stops, include):
    machine = StopStrings(stops, include=include)
    out = "".join(machine.put(piece) for piece in pieces)
    return out + machine.finish(), machine.matched


@settings(max_examples=sample(75, full=300), deadline=None)
@given(
    st.text(ALPHABET, max_size=8),
    st.lists(st.text(ALPHABET, min_size=1, max_size=4), min_size=1, max_size=4),
    st.booleans(),
)
def test_every_split_ends_where_a_search_over_the_whole_does(text, stops, include):
    expected = naive(text, stops, include)
    for cuts in range(1 << max(len(text) - 1, 0)):
        pieces, at = [], 0
        for border in range(1, len(text) + 1):
            if border == len(text) or cuts >> (border - 1) & 1:
                pieces.append(text[at:border])
                at = border
        assert streamed(pieces, stops, include) == expected


def test_only_what_may_become_a_stop_waits():
    stops = StopStrings(["</s>", "\n\n"])
    assert [stops.put(text) for text in ("a<", "/p>", "\n", "b")] == ["a", "</p>", "", "\nb"]
    assert (stops.held_bytes, stops.matched) == (0, None)


def test_text_before_the_stop_in_the_same_token_survives():
    stops = StopStrings(["END"])
    assert (stops.put("the END of"), stops.matched) == ("the ", "END")
    assert (stops.put("more"), stops.finish()) == ("", "")


def test_stops_that_complete_together_are_told_in_the_order_of_the_list():
    assert streamed(["xab"], ["ab", "xab"], False) == ("x", "ab")
    assert streamed(["xab"], ["xab", "ab"], False) == ("", "xab")


def test_other_stops_apply_to_text_that_has_not_left():
    stops = StopStrings(["stop now"])
    assert stops.put("go stop n") == "go "
    assert (stops.replace(["stop"]), stops.matched) == ("", "stop")
    other = StopStrings(["stop now"])
    other.put("stop n")
    assert (other.replace(["x"]), other.matched) == ("stop n", None)


@pytest.mark.parametrize("stops", [[], [""], ["a", ""], ["a"] * 17])
def test_too_few_too_many_and_empty_stops_are_refused(stops):
    with pytest.raises(InvalidInput):
        StopStrings(stops)
    with pytest.raises(InvalidInput):
        StopStrings(["a"]).replace(stops)


def test_what_has_matched_stays_matched_when_stops_change():
    stops = StopStrings(["a"])
    stops.put("a")
    assert (stops.replace(["b"]), stops.matched, stops.put("c")) == ("", "a", "")
