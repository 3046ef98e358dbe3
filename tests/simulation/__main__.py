"""`make simulate`: many seeds, or one of them again.

make simulate SEEDS=2000 FIRST=0
make simulate REPLAY=4711
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from scenario import Scenario, make_scenario
from seed_runs import FailedSeed, check_in_parallel, failure_of, replay, smallest


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many to run (2000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed again, and shrink")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if options.replay is not None:
        return show(options.replay)
    return simulate_all(options.first, options.seeds, options.jobs)


def simulate_all(first: int, seeds: int, jobs: int) -> int:
    started_s = time.monotonic()

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {seeds} seeds", end="", file=sys.stderr, flush=True)

    found: list[FailedSeed] = list(check_in_parallel(first, seeds, jobs, progress))
    print(file=sys.stderr) if sys.stderr.isatty() else None
    for bad in found:
        print(f"seed {bad.seed}: {bad.failure}")
    took_s = time.monotonic() - started_s
    print(f"{seeds - len(found)} passed, {len(found)} failed in {took_s:.0f} s")
    if found:
        print(f"look at one: make simulate REPLAY={found[0].seed}")
    return 1 if found else 0


def show(seed: int) -> int:
    scenario = make_scenario(seed)
    print_scenario(scenario)
    failure = failure_of(scenario)
    if failure is None:
        outcome = replay(seed)
        print(f"{outcome.state} after {len(outcome.moves)} moves; every law holds")
        return 0
    print(f"\n{failure}\n\nthe smallest scenario that still fails:")
    small, reason = smallest(seed)
    print_scenario(small)
    print(f"\n{reason}")
    return 1


def print_scenario(scenario: Scenario) -> None:
    how = f"ends by `{scenario.ending}` at {scenario.at}"
    print(f"seed {scenario.seed}, driven by `{scenario.driver}`, {how}")
    for stage in scenario.stages:
        print(f"  {stage}")


if __name__ == "__main__":
    sys.exit(main())
