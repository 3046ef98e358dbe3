"""When to try again: pauses that grow, chance, limits by count and by time."""

from __future__ import annotations

from torvyn.client.retry_policy import Backoff


def pauses(count: int, most: int = 100) -> list[float | None]:
    given = Backoff(most, 1e9, 0.25, lambda: 0.0, lambda: 1.0)
    return [given.next_delay_s() for _ in range(count)]


def test_pauses_double_up_to_the_longest() -> None:
    assert pauses(8) == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_after_so_many_tries_it_is_over() -> None:
    assert pauses(3, most=2) == [0.25, 0.5, None]


def test_after_so_long_it_is_over_and_the_last_pause_is_cut() -> None:
    now_s = [0.0]
    given = Backoff(100, 3.0, 0.25, lambda: now_s[0], lambda: 1.0)
    told = []
    while (pause_s := given.next_delay_s()) is not None:
        told.append(pause_s)
        now_s[0] += pause_s

    assert told == [0.25, 0.5, 1.0, 1.25]


def test_chance_takes_any_part_of_a_pause() -> None:
    assert Backoff(1, 9, 0.25, lambda: 0.0, lambda: 0.0).next_delay_s() == 0.0


def test_a_server_gets_the_pause_it_wants_or_none() -> None:
    given = Backoff(9, 30, 0.25, lambda: 0.0, lambda: 1.0)

    assert given.next_delay_s(5.0) == 5.25
    assert given.next_delay_s(31.0) is None


def test_what_arrives_starts_it_anew() -> None:
    given = Backoff(1, 30, 0.25, lambda: 0.0, lambda: 1.0)
    given.next_delay_s()
    given.reset()

    assert given.next_delay_s() == 0.25
    assert given.next_delay_s() is None
