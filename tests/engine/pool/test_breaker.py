"""The breaker of a member, and the scaling of a pool, by a clock of the test."""

from __future__ import annotations

from torvyn.engine.pool.breaker import LONGEST_PAUSE_S, MOST_FAILURES, Breaker
from torvyn.engine.pool.limits import Limits
from torvyn.engine.pool.scaling import Scaling


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_failures_in_a_row_open_the_breaker():
    breaker = Breaker(Clock())
    for _ in range(MOST_FAILURES - 1):
        breaker.fail()
    breaker.succeed()
    for _ in range(MOST_FAILURES):
        assert breaker.state == "closed"
        breaker.fail()
    assert breaker.state == "open"


def test_a_member_that_is_gone_opens_it_at_once():
    breaker = Breaker(Clock())
    breaker.fail(is_gone=True)
    assert breaker.state == "open"


def test_after_a_pause_one_request_decides():
    clock = Clock()
    breaker = Breaker(clock)
    breaker.fail(is_gone=True)
    clock.now_s += LONGEST_PAUSE_S
    assert breaker.state == "half-open"
    breaker.fail()
    assert breaker.state == "open"
    clock.now_s += LONGEST_PAUSE_S
    breaker.succeed()
    assert breaker.state == "closed"


def test_requests_that_were_running_when_it_opened_do_not_lengthen_the_pause():
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(100):
        breaker.fail(is_gone=True)
    clock.now_s += 1.0
    assert breaker.state == "half-open"


LIMITS = Limits(
    max_in_flight=4, min_members=1, max_members=3, scale_up_wait_s=1, scale_down_after_s=60
)


def test_a_long_queue_time_asks_for_one_more_member_and_then_for_a_pause():
    scaling = Scaling(LIMITS)
    assert scaling.decide(0, 1, 4, 0.9) == 0
    assert scaling.decide(1, 1, 4, 1.0) == 1
    assert scaling.decide(2, 2, 8, 9.0) == 0
    assert scaling.decide(7, 2, 8, 9.0) == 1
    assert scaling.decide(99, 3, 12, 9.0) == 0


def test_a_member_leaves_only_after_a_long_quiet_time():
    scaling = Scaling(LIMITS)
    assert scaling.decide(0, 2, 2, 0.0) == 0
    assert scaling.decide(59, 2, 3, 0.0) == 0, "the others would be more than half full"
    assert [scaling.decide(at, 2, 0, 0.0) for at in (60, 119, 120, 121)] == [0, 0, -1, 0]
    assert [scaling.decide(at, 1, 0, 0.0) for at in (122, 999)] == [0, 0]


def test_fewer_members_than_the_minimum_are_started_at_once():
    assert Scaling(LIMITS).decide(0, 0, 0, 0.0) == 1
