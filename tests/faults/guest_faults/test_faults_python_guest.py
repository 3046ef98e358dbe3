"""A guest in Python: large as it is, it compiles; an exception keeps its state, a trap loses it."""

from __future__ import annotations

from pathlib import Path

import pytest

import torvyn
from torvyn._sandbox.build import build
from torvyn._sandbox.component import guest_class
from torvyn._sandbox.project import GuestProject

pytestmark = [pytest.mark.full, pytest.mark.timeout(400)]

SOURCE = """
import torvyn

class Count(torvyn.Processor):
    def init(self, config):
        self.seen = 0

    def process(self, element):
        if element.text == "raise":
            raise ValueError("as you wish")
        while element.text == "loop":
            pass
        self.seen += 1
        return str(self.seen)
"""


def test_an_exception_keeps_the_state_and_a_cut_call_loses_it(tmp_path: Path) -> None:
    (tmp_path / "component.py").write_text(SOURCE)
    guest = guest_class(
        build(GuestProject("count", tmp_path, "python")).path, "count", tmp_path / "own"
    )()
    flow = torvyn.Flow(["a", "raise", "b", "loop", "c"], on_error="skip")
    flow.add("count", guest, call_timeout_s=0.3).connect("source", "count")

    # In a batch, the cut call also takes the count from before the batch, and happens once more
    # when the elements are given to the new instance one by one.
    assert list(flow.text()) in (["1", "2", "1"], ["1", "1", "1"])
    health = flow.statistics.nodes["count"].guest
    assert health is not None
    assert health.traps == health.state_lost == health.replaced
    assert health.traps in (1, 2)
    assert health.mean_replace_ns is not None
    assert health.mean_replace_ns < 10 * 10e6
