"""bytewax: JSON readings, keyed, folded in tumbling windows by event time; one worker, in process.

`fold_window` with an `EventClock` and a `TumblingWindower`, as its documentation shows; the fold
keeps count, sum and maximum. The source gives batches of 64. bytewax waits two seconds, as torvyn
does, but by the system's clock: item by item it takes half a millisecond per reading, so long that
readings are late and its windows differ.
"""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from benches.peers import distribution_version

NAME = "bytewax"
BATCH = 64
_LENGTH, _WAIT = timedelta(seconds=10), timedelta(seconds=2)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Fold = list[Any]


def VERSION() -> str:
    return f"bytewax {distribution_version('bytewax')}"


def available() -> str | None:
    if importlib.util.find_spec("bytewax") is None:
        return "bytewax is not installed"
    return None


def _at(record: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(record["at"], UTC)


def _add(total: _Fold, record: dict[str, Any]) -> _Fold:
    value = record["celsius"]
    total[0] += 1
    total[1] += value
    if total[2] is None or value > total[2]:
        total[2] = value
    return total


def _merge(one: _Fold, other: _Fold) -> _Fold:
    return [one[0] + other[0], one[1] + other[1], max(one[2], other[2])]


def _render(keyed: tuple[str, tuple[int, _Fold]]) -> str:
    key, (window, (count, total, most)) = keyed
    start = (_EPOCH + window * _LENGTH).strftime("%Y-%m-%dT%H:%M:%SZ")
    record = {"key": key, "start": start, "count": count, "mean": total / count, "max": most}
    return json.dumps(record)


def run(texts: list[str]) -> list[str]:
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, run_main

    from benches.peers.bytewax_peer import _source

    out: list[str] = []
    flow = Dataflow("windows")
    records = op.map("parse", op.input("in", flow, _source(texts, BATCH)), json.loads)
    keyed = op.key_on("key", records, lambda record: record["sensor"])
    folded = windowing.fold_window(
        "fold",
        keyed,
        windowing.EventClock(ts_getter=_at, wait_for_system_duration=_WAIT),
        windowing.TumblingWindower(length=_LENGTH, align_to=_EPOCH),
        lambda: [0, 0, None],
        _add,
        _merge,
    )
    op.output("out", op.map("render", folded.down, _render), TestingSink(out))
    run_main(flow)
    return out
