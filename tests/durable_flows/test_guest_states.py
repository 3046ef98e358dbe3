"""A sandboxed component with `snapshot` and `restore` continues where the last run was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from durable_parts import GatedSink, check_account
from test_states import FileNumbers, stateful_flow

from toolchains import needs_zig
from torvyn.sandbox.build.build import build
from torvyn.sandbox.build.project import GuestProject
from torvyn.sandbox.component import GuestLimits, guest_class

COUNTING = Path(__file__).parents[1] / "sandbox" / "c" / "counting"

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def counting(tmp_path: Path) -> Any:
    """Makes guests that append the number of elements that they have seen."""
    folder = tmp_path / "counting"
    shutil.copytree(COUNTING, folder)
    path = build(GuestProject("counting", folder, "c")).path
    kind = guest_class(path, "counting", tmp_path)

    def make() -> Any:
        component: Any = kind()
        component.set_limits(GuestLimits("counting", max_memory_bytes=1 << 20))
        return component

    return make


@needs_zig
@pytest.mark.parametrize("carrier", ["memory", "disk"])
def test_a_guest_continues_with_its_count(counting: Any, carrier: str) -> None:
    texts: list[str] = []
    for stop in range(3):
        sink = GatedSink(free=10 + 50 * stop)
        flow = stateful_flow(FileNumbers(3000), counting(), sink, carrier)
        flow.start()
        sink.is_blocked.wait(0.3)
        sink.gate.set()
        flow.drain()
        flow.wait()
        check_account(flow)
        texts += sink.texts
        if flow.state == "completed":
            break
    else:
        last = GatedSink(free=10**9)
        stateful_flow(FileNumbers(3000), counting(), last, carrier).run()
        texts += last.texts
    assert texts == [f"{number}{number + 1}" for number in range(3000)]
