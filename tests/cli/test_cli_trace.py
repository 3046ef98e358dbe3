"""`torvyn trace`: which node was called with which element, and which nodes are not traced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript import EXAMPLE, Cli

SINK = 'component = "console"'
SOURCE = 'component = "scripted"\nconfig = "a,b"'


def calls_of(cli: Cli, folder: Path) -> dict[str, list[tuple[str, str]]]:
    done = cli("trace", "-q", "--format", "json", cwd=folder)
    assert done.code == 0
    return {
        element["element"]: [(call["node"], call["outcome"]) for call in element["calls"]]
        for element in json.loads(done.out)["elements"]
    }


def test_an_element_is_followed_to_where_it_ends(cli: Cli) -> None:
    calls = calls_of(cli, EXAMPLE)

    # 20 tokens of the source, 3 sentences of the aggregator.
    assert len(calls) == 20 + 3
    assert calls["source#0"] == [("source", "pulled"), ("filter", "passed"), ("aggregator", "done")]
    assert calls["source#11"] == [("source", "pulled"), ("filter", "dropped")]
    assert calls["aggregator#2"] == [("sink", "done")]


def test_an_aggregators_call_names_the_elements_it_emitted(cli: Cli) -> None:
    done = cli("trace", "-q", "--format", "json", cwd=EXAMPLE)

    made = {
        element["element"]: call["made"]
        for element in json.loads(done.out)["elements"]
        for call in element["calls"]
        if call["made"]
    }
    assert made == {
        "source#9": ["aggregator#0"],
        "source#14": ["aggregator#1"],
        "source#19": ["aggregator#2"],
    }


def test_times_are_true_to_each_other(cli: Cli) -> None:
    elements = json.loads(cli("trace", "-q", "--format", "json", cwd=EXAMPLE).out)["elements"]

    for element in elements:
        ends = [call["start_ns"] + call["duration_ns"] for call in element["calls"]]
        starts = [call["start_ns"] for call in element["calls"]]
        assert starts == sorted(starts)
        assert element["duration_ns"] == max(ends) - starts[0]


@pytest.mark.parametrize("way", ["def", "async def"])
def test_nodes_that_run_apart_are_seen(cli: Cli, project: Callable[..., Path], way: str) -> None:
    part = f"""
        class Apart(torvyn.Filter):
            {way} evaluate(self, element):
                return element.text == "a"
    """
    run = 'run = "thread"' if way == "def" else ""
    nodes = {"source": SOURCE, "apart": f'component = "part"\n{run}', "sink": SINK}

    calls = calls_of(cli, project(nodes, part=part))

    assert calls == {
        "source#0": [("source", "pulled"), ("apart", "passed"), ("sink", "done")],
        "source#1": [("source", "pulled"), ("apart", "dropped")],
    }


def test_a_source_that_found_nothing_yet_shows_only_the_pull_that_did(
    cli: Cli, project: Callable[..., Path]
) -> None:
    part = """
        class Late(torvyn.Source):
            pulls = 0
            def pull(self):
                self.pulls += 1
                if self.pulls > 4:
                    return None
                return "x" if self.pulls % 2 == 0 else torvyn.PENDING.after(0.001)
    """

    calls = calls_of(cli, project({"source": 'component = "part"', "sink": SINK}, part=part))

    assert calls == {
        f"source#{number}": [("source", "pulled"), ("sink", "done")] for number in range(2)
    }


def test_nodes_that_do_not_run_inline_are_named(cli: Cli, project: Callable[..., Path]) -> None:
    part = """
        class Apart(torvyn.Source):
            run = "thread"
            def __iter__(self):
                yield "x"
    """
    folder = project({"source": 'component = "part"', "sink": SINK}, part=part)

    done = cli("trace", cwd=folder)

    assert done.code == 0
    assert done.err.endswith("Not traced, because they do not run inline: `source`\n")


def test_the_calls_before_a_failure_are_shown(cli: Cli, project: Callable[..., Path]) -> None:
    part = """
        class Failing(torvyn.Processor):
            def process(self, element):
                raise ValueError(element.text)
    """
    nodes = {"source": SOURCE, "work": 'component = "part"', "sink": SINK}

    done = cli("trace", cwd=project(nodes, part=part))

    assert done.code == 1
    assert "work    failed" in done.out
    assert "error[component.internal]" in done.err
