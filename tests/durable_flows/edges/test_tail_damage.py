"""What was lost with a damaged or missing file is logged, and counts as dropped."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from durable_parts import AckSource, GatedSink, check_account, disk_flow, wait_until
from scale import sample

from torvyn._cli.commands.top import render_flow
from torvyn._cli.statistics import summary_line

COUNT, DELIVERED = 3000, 700


class Killed(NamedTuple):
    """What a kill leaves, and how many elements are in it."""

    folder: Path
    left: int


def remove(file: Path) -> None:
    file.unlink(missing_ok=True)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 3 | 1])


def overwrite(file: Path) -> None:
    file.write_bytes(b"\xa5" * file.stat().st_size)


FAULTS = (remove, empty, zero, cut, overwrite)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """A flow that has stored elements in two runs, and has delivered some in the second."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORVYN_RUNTIME__STATE_DIR", str(folder / "first"))
        source, sink = AckSource(numbers()), GatedSink()
        flow = disk_flow(source, sink)
        flow.start()
        wait_until(lambda: source.acknowledged == COUNT)
        flow.cancel()
        sink.gate.set()
        flow.wait()
        left = flow.statistics.edges[0].stored.elements + COUNT - DELIVERED
        source, sink = AckSource(numbers()), GatedSink(free=DELIVERED)
        flow = disk_flow(source, sink)
        flow.start()
        wait_until(lambda: source.acknowledged == COUNT and sink.is_blocked.is_set())
        wait_until(lambda: flow.statistics.edges[0].stored.elements == left)
        shutil.copytree(folder / "first", folder / "state")
        flow.cancel()
        sink.gate.set()
        flow.wait()
    return Killed(folder / "state", left)


def numbers() -> list[str]:
    return [f"{number}" + "x" * 200 for number in range(COUNT)]


def damage(killed: Killed, state_dir: Path, *faults: tuple[str, Callable[[Path], None]]) -> None:
    shutil.copytree(killed.folder, state_dir)
    for suffix, fault in faults:
        fault(state_dir / "main" / f"flow.db{suffix}")


@pytest.mark.promise("edge.stored-damage")
@pytest.mark.parametrize("order", ["oldest-first", "live-first"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    "suffixes", [("-wal",), ("",), ("", "-wal")], ids=["wal", "database", "both"]
)
def test_every_accepted_element_is_delivered_or_counted_as_dropped(
    killed: Killed,
    state_dir: Path,
    suffixes: tuple[str, ...],
    fault: Callable[[Path], None],
    order: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    damage(killed, state_dir, *((suffix, fault) for suffix in suffixes))
    sink = GatedSink(free=10**9)
    flow = disk_flow(AckSource([]), sink, order=order)
    flow.run()
    check_account(flow)
    edge = flow.statistics.edges[0]
    assert edge.entered == edge.taken + edge.dropped == killed.left
    assert edge.taken == len(sink.texts)
    if "" in suffixes and fault is not cut:
        assert edge.dropped > 0
    assert flow.statistics.dropped == edge.dropped
    missing = [each for each in caplog.records if getattr(each, "event", "") == "durable.lost"]
    assert sum(each.last - each.first + 1 for each in missing) == edge.dropped
    assert all(each.levelno == logging.ERROR for each in missing)
    # It is said once: the next run has nothing to report.
    later = disk_flow(AckSource(["new"]), sink, order=order)
    later.run()
    assert (later.statistics.edges[0].entered, later.statistics.edges[0].dropped) == (1, 0)


@pytest.mark.parametrize("fault", [remove, empty])
def test_a_database_that_is_gone_with_its_mark_is_named(
    killed: Killed, state_dir: Path, fault: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(killed, state_dir, ("", fault), ("-wal", remove), (".mark", remove))
    disk_flow(AckSource([]), GatedSink()).run()
    assert "flow.db` is missing or empty" in caplog.text
    assert "its amount is not known" in caplog.text


@pytest.mark.parametrize("fault", sample(FAULTS[:2], full=FAULTS))
def test_a_store_without_its_mark_says_so(
    killed: Killed, state_dir: Path, fault: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(killed, state_dir, (".mark", fault))
    sink = GatedSink(free=10**9)
    disk_flow(AckSource([]), sink).run()
    assert len(sink.texts) == killed.left
    assert "lost commits are not noticed" in caplog.text


def test_people_see_what_was_lost(killed: Killed, state_dir: Path) -> None:
    damage(killed, state_dir, ("", remove))
    flow = disk_flow(AckSource([]), GatedSink(free=10**9))
    flow.run()

    dropped = flow.statistics.edges[0].dropped
    facts = {"pid": 1, "cpu_s": 0.0, "resident_bytes": None, "memory_limit_bytes": None}
    health = {"state": "healthy", "reason": ""}
    statistics = flow.statistics.to_dict()
    shown = render_flow({"flow": "main", **facts, "health": health, "statistics": statistics}, None)
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("in:output -> out")]
    assert (row[3], row[-1]) == ("0", str(dropped))
    assert f"{dropped} dropped" in summary_line(flow.statistics)
