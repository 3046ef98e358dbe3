"""Timing: from receipt to delivery, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from torvyn.engine import Scripted, Timing
from torvyn.engine.generation import Generation
from torvyn.engine.request import Request
from torvyn.engine.timing import otel
from torvyn.protocol.frames import Usage


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.promise("inference.latency-figures")
def test_the_figures_follow_from_receipt_and_deliveries():
    clock = Clock()
    timing = Timing(clock)
    clock.now_s += 1
    timing.started()
    for _ in range(5):
        clock.now_s += 2
        timing.delivered()
    clock.now_s += 1
    timing.ended()

    figures = timing.figures(Usage(3, 9))

    assert figures["queue_s"] == 1
    assert figures["ttft_s"] == 1 + 2
    assert figures["inter_token_s"] == 4 * 2 / (9 - 1)
    assert figures["time_per_output_token_s"] == (4 * 2 + 1) / (9 - 1)
    assert figures["duration_s"] == 1 + 5 * 2 + 1
    assert figures["tokens_per_s"] == 9 / 12
    assert figures["gap_p50_s"] == figures["gap_p99_s"] == 2


def test_what_is_not_known_is_left_out():
    assert set(Timing(Clock()).figures()) == {"duration_s", "prompt_tokens", "completion_tokens"}


def test_a_rare_long_gap_is_the_99th_percentile_and_not_the_50th():
    clock = Clock()
    timing = Timing(clock)
    for count in range(201):
        clock.now_s += 5 if count % 50 == 49 else 0.25
        timing.delivered()

    assert timing.figures()["gap_p50_s"] == 0.25
    assert timing.figures()["gap_p99_s"] == 5


def test_memory_does_not_grow_with_the_answer():
    timing = Timing(Clock())
    for _ in range(100_000):
        timing.delivered()

    assert len(timing._gaps) <= 512


def test_a_clock_that_jumps_back_makes_no_negative_duration():
    clock = Clock()
    timing = Timing(clock)
    timing.delivered()
    clock.now_s -= 50
    timing.delivered()
    timing.ended()

    assert min(timing.figures(Usage(1, 2)).values()) >= 0


def test_held_text_does_not_stop_the_clock_for_the_first_token():
    clock = Clock()

    async def sleep(seconds: float) -> None:
        clock.now_s += seconds

    engine = Scripted(["E", "N", "x"], delay=1, sleep=sleep)
    generation = Generation(engine, Request.make("x", stop="END"), clock)
    asyncio.run(generation.acomplete())

    assert generation.timing["ttft_s"] == 2


def test_an_engine_with_a_queue_says_when_a_request_has_its_turn():
    clock = Clock()

    class Queued(Scripted):
        async def steps(self, request):
            clock.now_s += 3
            self._work_begins(request)
            async for step in super().steps(request):
                yield step

    generation = Generation(Queued("a"), Request.make("x"), clock)
    asyncio.run(generation.acomplete())

    assert generation.timing["queue_s"] == 3


def test_a_completion_has_its_timing():
    timing = Scripted("a b").complete("x").timing

    assert 0 <= timing["ttft_s"] <= timing["duration_s"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("ttft_s", "gen_ai.server.time_to_first_token"),
        ("time_per_output_token_s", "gen_ai.server.time_per_output_token"),
        ("duration_s", "gen_ai.server.request.duration"),
        ("completion_tokens", "gen_ai.usage.output_tokens"),
    ],
)
def test_figures_have_opentelemetry_names(ours, theirs):
    assert otel({ours: 1.5}) == {theirs: 1.5}
