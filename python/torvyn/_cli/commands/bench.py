"""`torvyn bench`: measures how fast a flow is, and compares it with an earlier result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from torvyn._cli.bench_comparison import more_rounds
from torvyn._cli.bench_measurement import PERCENTILES
from torvyn._cli.command import command as make_command
from torvyn._cli.screen import Screen
from torvyn._cli.statistics import duration, table
from torvyn._cli.target import (
    artifact_options,
    duration_s,
    end_options,
    flow_options,
    link_with_ends,
)


def human(result: dict[str, Any]) -> str:
    heads, rows = _component_table(result)
    return "\n".join([*_facts(result), "", table(heads, rows), _method(result)]) + "\n"


def markdown(result: dict[str, Any]) -> str:
    heads, rows = _component_table(result)
    lines = [f"# Benchmark of flow `{result['flow']}`", ""]
    lines += [f"- {fact}" for fact in _facts(result)]
    lines += ["", _row(heads), _row(["---"] * len(heads)), *map(_row, rows), "", _method(result)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _facts(result: dict[str, Any]) -> Iterator[str]:
    rate, rounds = result["throughput"], result["rounds"]
    spread = f"{_rate(rate['lowest'])} to {_rate(rate['highest'])}"
    yield f"throughput {_rate(rate['median'])} elements/s (median of {len(rounds)}; {spread})"
    last = rounds[-1]
    yield f"per round: {last['produced']} produced, {last['emitted']} emitted"
    yield f"per round: {result['copies']} copies, {result['allocations']} allocations"
    compared = result.get("comparison")
    if compared is not None:
        yield from _comparison(result, compared)


_VERDICTS: Final = {
    "slower": "slower than allowed",
    "not-slower": "not slower than allowed",
    "cannot-tell": "too uncertain to tell whether it is slower than allowed",
}


def _comparison(result: dict[str, Any], compared: dict[str, Any]) -> Iterator[str]:
    before, change = _rate(compared["throughput_before"]), compared["throughput_change"]
    lowest, highest = compared["throughput_change_lowest"], compared["throughput_change_highest"]
    limits = "too few rounds" if lowest is None else f"{lowest:+.1f} to {highest:+.1f} %"
    verdict = compared["verdict"]
    yield f"before {before} elements/s: {change:+.1f} % ({limits}), {_VERDICTS[verdict]}"
    if verdict == "cannot-tell":
        yield f"hint: {more_rounds(result)}"


def _component_table(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    compared = result.get("comparison", {}).get("components")
    heads = ["component", "calls", *PERCENTILES, *(["p50 before"] if compared else [])]
    rows = []
    for name, facts in result["components"].items():
        times = [duration(facts[f"{percentile}_ns"] / 1e9) for percentile in PERCENTILES]
        row = [name, str(facts["calls"]), *times]
        if compared:
            row.append(f"{compared[name]['p50_change']:+.1f} %" if name in compared else "-")
        rows.append(row)
    return heads, rows


def _method(result: dict[str, Any]) -> str:
    machine = result["machine"]
    return (
        f"torvyn {machine['torvyn']}, Python {machine['python']}, {machine['system']}, "
        f"{machine['cores']} cores; call times are from separate, traced rounds"
    )


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f}"


EXAMPLE = """\
torvyn bench --rounds 10
torvyn bench --format json > before.json
torvyn bench --compare before.json --threshold 5"""


@make_command("bench", example=EXAMPLE, formats=("human", "json", "markdown"))
@flow_options
@artifact_options
@end_options
@click.option("--warmup", type=click.IntRange(min=0), default=1, show_default=True, metavar="N",
              help="Rounds to run before measuring.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Rounds to measure; by default at least 5, for at least 2 seconds.")  # fmt: skip
@click.option("--duration", metavar="DURATION",
              help="Measure for this long instead, such as 10s; a round takes up to a tenth of it."
              )  # fmt: skip
@click.option("--compare", metavar="FILE",
              help="Compare with this earlier result; exit with code 3 if the flow is slower."
              )  # fmt: skip
@click.option("--threshold", type=click.FloatRange(min=0), default=10.0, show_default=True,
              metavar="PERCENT", help="The slowdown that --compare allows.")  # fmt: skip
def command(screen: Screen, **options: Any) -> int:
    """Measure how fast a flow is.

    Runs the flow repeatedly, each time from the start. Rounds without tracing give the throughput;
    traced rounds after them give the percentiles of each component's calls. Output of components is
    discarded.
    """
    from torvyn._cli.bench_comparison import compare, raise_if_regressed, read_result
    from torvyn._cli.bench_measurement import BenchOptions

    own = ("warmup", "rounds", "duration", "compare", "threshold")
    warmup, rounds, span, path, threshold = (options.pop(name) for name in own)
    span_s = None if span is None else duration_s("--duration", span)
    plan, limit = link_with_ends(screen, options)
    bench_options = BenchOptions(warmup, rounds, span_s, limit)
    before = None if path is None else read_result(path, plan.name)
    result = _measure(screen, plan, bench_options)
    if isinstance(result, int):
        return result
    if before is not None:
        result["comparison"] = compare(result, before, threshold)
    _show(screen, result)
    if before is not None:
        raise_if_regressed(result["comparison"], path)
    return 0


def _measure(screen: Screen, plan: Any, options: Any) -> dict[str, Any] | int:
    """The result, or the exit code of a round that did not complete."""
    from torvyn._cli.bench_measurement import RoundIncomplete, measure
    from torvyn._cli.screen import output_to_stderr

    try:
        with output_to_stderr(discard=True):
            return measure(plan, options, _progress(screen))
    except RoundIncomplete as error:
        outcome = error.outcome
        if outcome.state == "failed" and outcome.error is not None:
            raise outcome.error from None
        screen.info(f"[torvyn] Flow '{plan.name}' {outcome.state}.")
        return outcome.exit_code
    finally:
        _progress(screen)("")


def _progress(screen: Screen) -> Callable[[str], None]:
    """Shows progress in one line that is overwritten, on a terminal only."""
    if screen.is_quiet or sys.stderr is None or not sys.stderr.isatty():
        return lambda text: None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show


def _show(screen: Screen, result: dict[str, Any]) -> None:
    pass

    if screen.is_json:
        screen.document(result)
    elif screen.format == "markdown":
        screen.data(markdown(result))
    else:
        screen.data(human(result))
