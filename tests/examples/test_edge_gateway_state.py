"""The stages of the gateway continue from a saved state as if nothing had happened."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from gateway_project import EXAMPLE

from torvyn.testing import run_flow

READINGS = [f'{{"seq":{i},"channels":[{i % 7},{i * i % 11}]}}' for i in range(250)]
CSV = "f1,f2,anomaly\n" + "".join(f"{i},{i + 1},0\n" for i in range(9))


def stage(name: str) -> Any:
    """A new instance of the component in Python."""
    path = EXAMPLE / "components" / "python" / name / "component.py"
    spec = importlib.util.spec_from_file_location(f"edge_gateway_{name.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    [found] = [each for each in vars(module).values() if _is_component(each, module.__name__)]
    return found()


def _is_component(value: object, module: str) -> bool:
    return isinstance(value, type) and value.__module__ == module


def continued(name: str) -> Any:
    """A new instance that takes over the state of one that has seen the first 130 readings."""
    first, second = stage(name), stage(name)
    first.flush = list  # the window stays open, as in a crash
    run_flow(READINGS[:130], first)
    state = json.loads(json.dumps(first.snapshot()))
    start = second.init

    def init(config: dict[str, Any]) -> None:
        start(config)
        second.restore(state)

    second.init = init
    return second


@pytest.mark.parametrize("name", ["anomaly-detector", "local-aggregator"])
def test_a_stage_continues_where_it_was(name: str) -> None:
    whole = run_flow(READINGS, stage(name)).texts

    rest = run_flow(READINGS[130:], continued(name)).texts

    assert rest == whole[-len(rest) :]


def test_the_source_continues_in_the_middle_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "readings.csv").write_text(CSV)
    first, second = stage("sensor-source"), stage("sensor-source")
    for source in (first, second):
        source.init(str(tmp_path / "readings.csv"))
    read = [first.pull().data for _ in range(5)]

    second.restore(first.snapshot())

    assert second.pull().data == '{"seq":5,"channels":[5,6]}'
    assert read[-1] == '{"seq":4,"channels":[4,5]}'
