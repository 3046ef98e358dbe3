"""The rate for a server that says that it is overloaded."""

import pytest

from torvyn.components.http.adaptive_rate import AdaptiveRate
from torvyn.testing import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rate(clock):
    return AdaptiveRate(clock)


def send(rate, clock, count, seconds):
    rate.sent(count)
    clock.advance(seconds)
    rate.accepted()


def test_there_is_no_limit_before_the_server_asks_for_one(rate, clock):
    send(rate, clock, 1000, 0.1)

    assert (rate.limit_per_s, rate.delay_s()) == (None, 0.0)


def test_each_refusal_halves_the_rate(rate, clock):
    send(rate, clock, 1000, 0.1)
    rate.sent(1000)
    rate.overloaded()
    assert rate.limit_per_s == pytest.approx(10_000 / 2)
    rate.overloaded()
    assert rate.limit_per_s == pytest.approx(10_000 / 4)
    assert rate.delay_s() == pytest.approx(1000 / 2500)


def test_the_limit_goes_when_the_server_accepts_again(rate, clock):
    send(rate, clock, 100, 0.1)
    rate.sent(100)
    rate.overloaded()
    for _ in range(40):
        send(rate, clock, 100, 0.1)

    assert rate.limit_per_s is None
