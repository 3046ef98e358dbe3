"""Backoff: growing delays, jitter, limits by count and by time."""

from __future__ import annotations

from torvyn.client.retry_policy import Backoff


def pauses(count: int, most: int = 100) -> list[float | None]:
    backoff = Backoff(most, 1e9, 0.25, lambda: 0.0, lambda: 1.0)
    return [backoff.next_delay_s() for _ in range(count)]


def test_pauses_double_up_to_the_longest() -> None:
    assert pauses(8) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_after_so_many_tries_it_is_over() -> None:
    assert pauses(3, most=2) == [0.25, 0.5, None]


def test_after_so_long_it_is_over_and_the_last_pause_is_cut() -> None:
    now_s = [0.0]
    backoff = Backoff(100, 3.0, 0.25, lambda: now_s[0], lambda: 1.0)
    delays = []
    while (pause_s := backoff.next_delay_s()) is not None:
        delays.append(pause_s)
        now_s[0] += pause_s

    assert delays == [0.25, 0.5, 1.0, 1.25]


def test_chance_takes_any_part_of_a_pause() -> None:
    assert Backoff(1, 9, 0.25, lambda: 0.0, lambda: 0.0).next_delay_s() == 0.0


def test_a_server_gets_the_pause_it_wants_or_none() -> None:
    backoff = Backoff(9, 30, 0.25, lambda: 0.0, lambda: 1.0)

    assert backoff.next_delay_s(5.0) == 5.25
    assert backoff.next_delay_s(31.0) is None


def test_a_reset_forgets_earlier_failures() -> None:
    backoff = Backoff(1, 30, 0.25, lambda: 0.0, lambda: 1.0)
    backoff.next_delay_s()
    backoff.reset()

    assert backoff.next_delay_s() == 0.25
    assert backoff.next_delay_s() is None
