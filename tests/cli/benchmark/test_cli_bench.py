"""`torvyn bench`: what it measures, compares and rejects. The figures themselves are not tested."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transcript import EXAMPLE, Cli

from torvyn._cli.bench_measurement import percentiles

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def result(cli: Cli) -> dict[str, Any]:
    done = cli("bench", "--rounds", 5, "--format", "json", cwd=EXAMPLE)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_the_result_holds_rounds_rates_and_percentiles(result: dict[str, Any]) -> None:
    assert result["schema_version"] == 1
    assert [one["produced"] for one in result["rounds"]] == [20] * 5
    # One before the first round, and one after each.
    assert len(result["reference"]) == 1 + 5
    rate = result["throughput"]
    assert 0 < rate["lowest"] <= rate["median"] <= rate["highest"]
    # As many traced rounds as measured ones, because the flow is short.
    calls = {name: facts["calls"] for name, facts in result["components"].items()}
    assert calls == {"source": 5 * 20, "filter": 5 * 20, "aggregator": 5 * 19, "sink": 5 * 3}
    for facts in result["components"].values():
        assert facts["p50_ns"] <= facts["p90_ns"] <= facts["p99_ns"] <= facts["p99.9_ns"]


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentiles([*range(1, 1001)]) == {
        "p50_ns": 500,
        "p90_ns": 900,
        "p99_ns": 990,
        "p99.9_ns": 999,
    }
    assert set(percentiles([7]).values()) == {7}


def test_a_duration_measures_at_least_once(cli: Cli) -> None:
    done = cli("bench", "--duration", "1us", "--warmup", 0, "--format", "json", cwd=EXAMPLE)

    assert len(json.loads(done.out)["rounds"]) == 1


def save(result: dict[str, Any], folder: Path, *, times_faster: float = 1.0) -> Path:
    """A result whose rounds are faster by this factor."""
    rounds = [{**one, "elapsed_s": one["elapsed_s"] / times_faster} for one in result["rounds"]]
    path = folder / "before.json"
    path.write_text(json.dumps({**result, "rounds": rounds}))
    return path


def test_a_slower_flow_ends_with_code_3(cli: Cli, result: dict[str, Any], tmp_path: Path) -> None:
    before = save(result, tmp_path, times_faster=1e6)

    done = cli("bench", "--rounds", 5, "--compare", before, cwd=EXAMPLE)

    assert done.code == 3
    assert ", slower than allowed\n" in done.out
    assert done.err.startswith("error[cli.regressed]: the throughput is 100.0 % lower than in ")


def test_a_faster_flow_succeeds_and_shows_the_change(
    cli: Cli, result: dict[str, Any], tmp_path: Path
) -> None:
    before = save(result, tmp_path, times_faster=1e-6)

    done = cli("bench", "--rounds", 5, "--compare", before, "--format", "json", cwd=EXAMPLE)

    assert done.code == 0
    comparison = json.loads(done.out)["comparison"]
    assert comparison["verdict"] == "not-slower"
    assert set(comparison["components"]) == {"source", "filter", "aggregator", "sink"}


def test_too_few_rounds_cannot_tell_and_give_a_hint(
    cli: Cli, result: dict[str, Any], tmp_path: Path
) -> None:
    before = save(result, tmp_path, times_faster=1e6)

    done = cli("bench", "--rounds", 2, "--compare", before, cwd=EXAMPLE)

    assert (done.code, done.err) == (0, "")
    assert "(too few rounds), too uncertain to tell whether it is slower than allowed\n" in done.out
    assert "hint: measure both with more rounds (`--rounds 8`)" in done.out


def test_a_result_without_reference_rates_is_rejected(
    cli: Cli, result: dict[str, Any], tmp_path: Path
) -> None:
    del result["reference"]

    done = cli("bench", "--compare", save(result, tmp_path), cwd=EXAMPLE)

    assert done.code == 2
    assert "before.json is not a benchmark result" in done.err


def test_a_result_of_another_flow_is_rejected(
    cli: Cli, result: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "before.json").write_text(json.dumps({**result, "flow": "other"}))

    done = cli("bench", "--compare", tmp_path / "before.json", cwd=EXAMPLE)

    assert done.code == 2
    assert "is a result of flow `other`, not of `main`" in done.err


def test_a_duration_ends_on_an_endless_source(cli: Cli, project: Callable[..., Path]) -> None:
    part = """
        class Endless(torvyn.Source):
            def pull(self):
                return "x"
    """
    nodes = {"source": 'component = "part"', "sink": 'component = "null"'}
    options = ("--duration", "10ms", "--warmup", 1, "--format", "json")

    done = cli("bench", *options, cwd=project(nodes, part=part))

    assert (done.code, done.err) == (0, "")
    rounds = json.loads(done.out)["rounds"]
    assert len(rounds) == 1
    # Drained: all elements have reached the sink.
    assert rounds[0]["produced"] == rounds[0]["emitted"] > 0


def test_output_of_components_is_discarded(start: Start) -> None:
    process = start("bench", "--rounds", 1, cwd=EXAMPLE)

    out, err = process.communicate()

    assert process.returncode == 0
    assert "output-sink" not in out + err


def test_a_flow_that_fails_is_not_measured(cli: Cli, project: Callable[..., Path]) -> None:
    source = 'component = "lines"\nconfig = "absent.txt"'
    folder = project({"source": source, "sink": 'component = "null"'})

    done = cli("bench", cwd=folder)

    assert (done.code, done.out) == (3, "")
    assert "error[components.file-missing]" in done.err


def test_a_flow_that_reads_nothing_is_not_measured(cli: Cli, project: Callable[..., Path]) -> None:
    folder = project({"source": 'component = "lines"', "sink": 'component = "null"'})
    (folder / "empty.txt").write_text("")

    done = cli("bench", "--input", "empty.txt", cwd=folder)

    assert done.code == 2
    assert "error[cli.nothing-measured]: flow `main` produced no elements in a round" in done.err


def test_an_interrupt_ends_the_benchmark(start: Start, project: Callable[..., Path]) -> None:
    part = """
        import sys
        class Endless(torvyn.Source):
            def pull(self):
                print("begun", file=sys.stderr, flush=True)
                return torvyn.PENDING
    """
    nodes = {"source": 'component = "part"', "sink": 'component = "null"'}
    process = start("bench", cwd=project(nodes, part=part))
    assert process.stderr is not None
    assert process.stderr.readline() == "begun\n"
    process.send_signal(signal.SIGINT)

    assert process.communicate()[1].endswith("[torvyn] Flow 'main' interrupted.\n")
    assert process.returncode == 130
