"""One seed from start to verdict, and many of them over several processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from judge import judge
from scenario import Scenario, scenario
from shrink import shrink
from world import Outcome, simulate

CHUNK = 50


@dataclass(frozen=True)
class Found:
    """A seed that broke a law."""

    seed: int
    complaint: str


def complaint_of(made: Scenario) -> str | None:
    """What is wrong with a run of the scenario; None: nothing."""
    try:
        judge(made, simulate(made))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def check_seeds(first: int, count: int) -> list[Found]:
    logging.disable(logging.CRITICAL)  # Components fail on purpose.
    found = []
    for seed in range(first, first + count):
        complaint = complaint_of(scenario(seed))
        if complaint is not None:
            found.append(Found(seed, complaint))
    return found


def check_in_parallel(
    first: int, count: int, jobs: int, progress: Callable[[int], None]
) -> Iterator[Found]:
    starts = range(first, first + count, CHUNK)
    with ProcessPoolExecutor(jobs) as pool:
        sizes = [min(CHUNK, first + count - start) for start in starts]
        done = 0
        for size, found in zip(sizes, pool.map(check_seeds, starts, sizes), strict=True):
            done += size
            progress(done)
            yield from found


def replay(seed: int) -> Outcome:
    """The run of a seed, exactly as it was."""
    return simulate(scenario(seed))


def smallest(seed: int) -> tuple[Scenario, str]:
    """The seed's scenario cut down as far as it still breaks a law, and its complaint."""
    small = shrink(scenario(seed), lambda simpler: complaint_of(simpler) is not None)
    return small, complaint_of(small) or ""
