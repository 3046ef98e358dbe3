"""Delays between tries: they grow, with jitter; of `Retries` there is a last one."""

from __future__ import annotations

import random

import pytest

from torvyn._io.backoff import Backoff, Retries


def pauses(count: int, most: int = 100) -> list[float | None]:
    backoff = Retries(most, 1e9, 0.25, clock=lambda: 0.0, random=lambda: 1.0)
    return [backoff.next_delay_s() for _ in range(count)]


def test_pauses_double_up_to_the_longest() -> None:
    assert pauses(8) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_after_so_many_tries_it_is_over() -> None:
    assert pauses(3, most=2) == [0.25, 0.5, None]


def test_after_so_long_it_is_over_and_the_last_pause_is_cut() -> None:
    now_s = [0.0]
    backoff = Retries(100, 3.0, 0.25, clock=lambda: now_s[0], random=lambda: 1.0)
    delays = []
    while (pause_s := backoff.next_delay_s()) is not None:
        delays.append(pause_s)
        now_s[0] += pause_s

    assert delays == [0.25, 0.5, 1.0, 1.25]


def test_chance_takes_any_part_of_a_pause() -> None:
    assert Retries(1, 9, 0.25, clock=lambda: 0.0, random=lambda: 0.0).next_delay_s() == 0.0


def test_a_server_gets_the_pause_it_wants_or_none() -> None:
    backoff = Retries(9, 30, 0.25, clock=lambda: 0.0, random=lambda: 1.0)

    assert backoff.next_delay_s(5.0) == 5.25
    assert backoff.next_delay_s(31.0) is None


def test_a_reset_forgets_earlier_failures() -> None:
    backoff = Retries(1, 30, 0.25, clock=lambda: 0.0, random=lambda: 1.0)
    backoff.next_delay_s()
    backoff.reset()

    assert backoff.next_delay_s() == 0.25
    assert backoff.next_delay_s() is None


def test_delays_grow_to_the_longest_and_start_again() -> None:
    backoff = Backoff(first_s=0.5, longest_s=60.0, random=lambda: 1.0)

    assert [backoff.next_delay_s() for _ in range(10)] == [0.5, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert backoff.next_delay_s(at_least_s=100.0) == 160.0
    backoff.reset()
    assert backoff.next_delay_s() == 0.5


def test_delays_have_full_jitter() -> None:
    numbers = iter((0.0, 0.25, 1.0, 0.99))
    backoff = Backoff(first_s=1.0, random=lambda: next(numbers))

    assert [backoff.next_delay_s() for _ in range(4)] == [0.0, 0.25, 1.0, 0.99 * 1.25]


@pytest.mark.parametrize("seed", range(200))
def test_no_delay_is_longer_than_the_time_away_before_it(seed: int) -> None:
    backoff = Backoff(random=random.Random(seed).random)
    away_s = 0.0
    for _ in range(30):
        delay_s = backoff.next_delay_s()
        assert delay_s <= min(60.0, max(0.5, away_s))
        away_s += delay_s
    assert away_s > 60.0
