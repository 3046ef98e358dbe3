"""One seed from start to verdict, and many of them over several processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from law_checks import check_laws
from scenario import Scenario, make_scenario
from shrink import shrink
from simulator import Outcome, simulate

CHUNK = 50


@dataclass(frozen=True)
class FailedSeed:
    """A seed that broke a law."""

    seed: int
    failure: str


def failure_of(scenario: Scenario) -> str | None:
    """What is wrong with a run of the scenario; None: nothing."""
    try:
        check_laws(scenario, simulate(scenario))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def check_seeds(first: int, count: int) -> list[FailedSeed]:
    logging.disable(logging.CRITICAL)  # Components fail on purpose.
    found = []
    for seed in range(first, first + count):
        failure = failure_of(make_scenario(seed))
        if failure is not None:
            found.append(FailedSeed(seed, failure))
    return found


def check_in_parallel(
    first: int, count: int, jobs: int, progress: Callable[[int], None]
) -> Iterator[FailedSeed]:
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
    return simulate(make_scenario(seed))


def smallest(seed: int) -> tuple[Scenario, str]:
    """The seed's scenario cut down as far as it still breaks a law, and its failure."""
    small = shrink(make_scenario(seed), lambda simpler: failure_of(simpler) is not None)
    return small, failure_of(small) or ""
