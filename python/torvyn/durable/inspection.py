"""Looks into a store without changing it: what waits, and what is damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torvyn import _native
from torvyn.durable import catalog, checkpoints, log_rows
from torvyn.durable.disk.budget import Budget
from torvyn.durable.disk.database import check_schema, check_version
from torvyn.durable.disk.high_water import HighWaterFile
from torvyn.durable.disk.store_file import lock_store
from torvyn.durable.failures import STORE_ERRORS
from torvyn.durable.log_state import LogState
from torvyn.durable.records import LogStatistics
from torvyn.errors import FlowError

if TYPE_CHECKING:
    from torvyn._native import Database


@dataclass(slots=True)
class StoreReport:
    """`damaged`: the flow starts, and reports what is lost. `unreadable`: the flow starts with what
    can be copied from the file."""

    state: Literal["absent", "in-use", "intact", "damaged", "unreadable"]
    elements: dict[str, int] = field(default_factory=dict)
    """By log: neither settled nor lost."""
    segments: list[str] = field(default_factory=list)
    """Those with a saved state."""
    problems: list[str] = field(default_factory=list)


def inspect_store(path: Path, *, is_quick: bool = False) -> StoreReport:
    """Reads and checks every record, which takes as long as reading the file does. `is_quick`:
    only what waits."""
    if not path.exists():
        return StoreReport("absent")
    if not path.is_file():
        return StoreReport("unreadable", problems=["it is not a file"])
    try:
        owner = lock_store(path)
    except FlowError as error:
        return StoreReport("in-use", problems=[error.message])
    report = StoreReport("intact")
    try:
        with _read_only(path) as connection:
            _inspect(connection, path, report, is_quick)
    except (*STORE_ERRORS, FlowError) as error:
        return StoreReport("unreadable", problems=[str(error)])
    finally:
        owner.release()
    if report.problems:
        report.state = "damaged"
    return report


def log_statistics(path: Path) -> dict[str, LogStatistics] | None:
    """What waits in each log, without looking into the rows; None while a flow uses the store.

    Raises `durable.newer-version`, and `durable.damaged` for what cannot be read.
    """
    if not path.exists():
        return {}
    try:
        owner = lock_store(path)
    except FlowError:
        return None
    try:
        with _read_only(path) as connection:
            states = catalog.load(connection, {}, Budget.of(()), None)
            return {
                name: state.statistics(log_rows.oldest_ns(connection, state))
                for name, state in states.items()
            }
    except STORE_ERRORS as error:
        raise FlowError(
            "durable.damaged",
            f"the stored elements in `{path}` cannot be read: {error}",
            hint="start the flow: it copies what is readable, and reports the rest as lost",
        ) from error
    finally:
        owner.release()


@contextlib.contextmanager
def _read_only(path: Path) -> Iterator[Database]:
    connection = _native.Database(path.absolute(), is_read_only=True)
    try:
        check_version(connection, path)
        check_schema(connection)
        yield connection
    finally:
        connection.close()
        # Left by SQLite, because a reader does not remove it.
        path.with_name(path.name + "-shm").unlink(missing_ok=True)


def _inspect(connection: Database, path: Path, report: StoreReport, is_quick: bool) -> None:
    states = catalog.load(connection, {}, Budget.of(()), None)
    mark = HighWaterFile(path.with_name(path.name + ".mark")).read()
    report.elements = {state.name: state.elements for state in states.values()}
    segments = checkpoints.segments(connection)
    saved = {segment: checkpoints.load(connection, segment) for segment in segments}
    report.segments = [segment for segment, each in saved.items() if each and each.parts]
    if is_quick:
        return
    for state in states.values():
        report.problems += _problems(connection, state)
        known = mark.logs.get(state.name) if mark is not None else None
        if known is not None and known[1] > state.next:
            report.problems.append(
                f"log `{state.name}`: the elements {state.next} to {known[1] - 1} are missing"
            )
    for segment, checkpoint in saved.items():
        if checkpoint is None:
            report.problems.append(f"the checkpoint of segment `{segment}` is damaged")


def _problems(connection: Database, state: LogState) -> Iterator[str]:
    after, is_last = state.acknowledged, False
    while not is_last:
        page = log_rows.read(connection, state, after, 1 << 20)
        for first, last in page.gaps:
            yield f"log `{state.name}`: the elements {first} to {last} are damaged or missing"
        is_last = page.is_last
        after = page.rows[-1].last if page.rows else after
