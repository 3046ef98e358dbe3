"""Which tests a run has, and which of them share a worker: a plugin of pytest.

`--full` runs everything; without it, `scale.sample` gives small numbers and tests that are marked
`full` are left out. `--full --rest` runs only what such a run left out: tests that it skipped, and
those that are larger in full.

Workers (`-n auto`) take whole files, so that what the tests of a file share is made once, except
those in `APART`. `TOGETHER` names folders that stay with one worker for the same reason.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
import scale
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

TOGETHER: Final = (
    # One Ray cluster, which takes seconds to start and a gigabyte.
    "tests/cluster/on_ray/",
)
APART: Final = ("tests/docs/test_code_blocks.py", "tests/edge/test_deployment_run.py")
"""Files whose tests share nothing and take long: each test goes to any worker."""
PASSED: Final = "suite/passed"
"""Where the cache of pytest has the names of the tests that passed in the last run of the suite."""
FIRST: Final = (
    *APART,
    "tests/cli/run/",
    "tests/cli/test_cli_bad_input.py",
    "tests/cluster/",
    "tests/components/field/",
    "tests/durable/",
    "tests/durable_flows/",
    "tests/edge/test_",
    "tests/edge/updates/test_updater.py",
    "tests/engine/durable_answers/",
    "tests/examples/",
    "tests/faults/",
    "tests/flows/data/test_flow_cpu_share.py",
    "tests/nats_edges/",
    "tests/sandbox/",
    "tests/security/",
    "tests/text/test_real_tokenizers.py",
    "tests/time/test_window_recovery.py",
    "tests/transport/grpc_calls/test_grpc_server.py",
    "tests/transport/server/",
    "tests/typing/",
)
"""What has few tests that take long: what begins last must not take long."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run all of what is slow by nature, not a sample"
    )
    parser.addoption(
        "--rest", action="store_true", help="only what the last run without --full left out"
    )


def pytest_configure(config: pytest.Config) -> None:
    is_full = bool(config.getoption("--full"))
    scale.choose(is_full=is_full)
    config.addinivalue_line("markers", "full: only `--full` runs it; another test has the sample")
    config.addinivalue_line("markers", "promise(*ids): rows of docs/promises.toml that it proves")
    # Properties hold on a busy machine as well: an example may take as long as it needs.
    settings.register_profile("full", deadline=None)
    settings.register_profile("sample", deadline=None, max_examples=25, derandomize=True)
    settings.load_profile("full" if is_full else "sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set(left_out_of(items, config))
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    # Twelve thousand tests are here to stay: no collection of garbage looks at them again.
    gc.collect()
    gc.freeze()


def left_out_of(items: Sequence[pytest.Item], config: pytest.Config) -> Iterator[pytest.Item]:
    if not config.getoption("--full"):
        yield from (item for item in items if item.get_closest_marker("full"))
    if config.getoption("--rest"):
        passed = set(config.cache.get(PASSED, []))  # type: ignore[union-attr]
        yield from (item for item in items if item.nodeid in passed and not is_larger(item))


def is_larger(item: pytest.Item) -> bool:
    """Whether the test does more in full: a property, or in a module with samples."""
    function, module = getattr(item, "obj", None), getattr(item, "module", None)
    return hasattr(function, "is_hypothesis_test") or hasattr(module, "sample")


def workers(cores: int) -> int:
    """More than there are cores, because tests mostly wait; each needs some 200 MB."""
    return min(2 * cores + 1, cores + 6)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return workers(len(os.sched_getaffinity(0)))


class SharingSchedule(LoadFileScheduling):  # type: ignore[misc]
    """Whole files, or folders of files; the slow ones first, then those with the most tests."""

    _is_sorted = False

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if file in APART:
            return nodeid
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    def _assign_work_unit(self, node: Any) -> None:
        if not self._is_sorted:
            self._is_sorted = True
            for scope in [scope for scope in self.workqueue if scope.startswith(FIRST)]:
                self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingSchedule:
    return SharingSchedule(config, log)
