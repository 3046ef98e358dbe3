"""Renders a benchmark result as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from torvyn.cli.benchmark.comparison import more_rounds
from torvyn.cli.benchmark.measurement import PERCENTILES
from torvyn.cli.summary import duration, table


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
