"""`scripted` and `timer`: what they send, and when."""

import pytest

import torvyn
from torvyn._contract.signals import Pending
from torvyn.components import Scripted as Source
from torvyn.components import Timer
from torvyn.components.builtin.source_scripted import DEFAULT_TOKENS, Scripted
from torvyn.engine import Scripted as Engine
from torvyn.errors import ContractError


@pytest.mark.promise("tokens.built-ins")
def test_scripted_sends_its_twenty_tokens_by_default(start):
    source = start(Scripted)
    tokens = list(iter(source.pull, None))
    assert tokens == list(DEFAULT_TOKENS)
    assert len(tokens) == 20
    assert "".join(tokens[:10]) == "The quick brown fox jumped over the lazy dog."


def test_scripted_cuts_plain_text_at_commas_and_trims_nothing(start):
    assert list(iter(start(Scripted, "The, quick,.").pull, None)) == ["The", " quick", "."]


@pytest.mark.parametrize("delay", [{}, {"delay": "1ms"}])
def test_scripted_splits_text_into_words_as_its_engine_does(delay):
    text = "  Hello,\nwide world. "
    words = list(torvyn.Flow(Source({"text": text, **delay})).text())

    deltas = [delta.text for delta in Engine(text).generate("x") if delta.text]
    assert words == deltas == ["  Hello,", "\nwide", " world.", " "]


def test_scripted_repeats(start):
    source = start(Scripted, {"tokens": ["a", "b"], "repeat": 3})
    assert list(iter(source.pull, None)) == ["a", "b"] * 3
    assert source.pull() is None


def test_scripted_without_tokens_ends_at_once(start):
    assert start(Scripted, {"tokens": [], "delay": "1s"}).pull() is None


def test_scripted_begins_anew_when_it_is_started_again(start):
    source = start(Scripted, ["a"])
    assert [source.pull(), source.pull()] == ["a", None]
    source.init('["a"]')
    assert source.pull() == "a"


def test_scripted_waits_between_tokens_without_blocking(start, clock):
    source = start(Scripted, {"tokens": ["a", "b"], "delay": "20ms"})
    assert source.pull() == "a"
    answer = source.pull()
    assert isinstance(answer, Pending)
    assert answer.after_s == pytest.approx(0.02)
    clock.now_s += 0.021
    assert source.pull() == "b"
    assert source.pull() is None


def test_timer_sends_its_first_tick_at_once_and_the_next_when_it_is_due(start, clock):
    source = start(Timer, {"interval": "100ms", "count": 2, "text": "tick {n} {m}"})
    assert source.pull() == "tick 0 {m}"
    assert source.pull().after_s == pytest.approx(0.1)
    clock.now_s += 0.04
    assert source.pull().after_s == pytest.approx(0.06)
    clock.now_s += 0.0601
    assert source.pull() == "tick 1 {m}"
    assert source.pull() is None


def test_timer_does_not_drift_and_leaves_no_tick_out(start, clock):
    source = start(Timer, "1s")
    late_s = 0.3
    for n in range(100):
        clock.now_s = 1000.0 + n + late_s
        if n == 0:
            clock.now_s = 1000.0
        assert source.pull() == str(n)
    assert source.pull().after_s == pytest.approx(1 - late_s)
    clock.now_s = 1000.0 + 105
    assert [source.pull() for _ in range(6)] == ["100", "101", "102", "103", "104", "105"]
    assert isinstance(source.pull(), Pending)


def test_timer_is_endless_by_default(start, clock):
    source = start(Timer, "1ms")
    clock.now_s += 0
    source.pull()
    clock.now_s += 10
    assert [source.pull() for _ in range(5000)][-1] == "5000"


def test_timer_refuses_an_interval_of_nothing(start):
    with pytest.raises(ContractError, match="`interval` cannot be 0"):
        start(Timer, "0s")
