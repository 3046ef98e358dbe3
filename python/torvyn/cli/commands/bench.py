"""`torvyn bench`: how fast a flow is, and whether it has become slower."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from torvyn.cli.command_decorator import command as make_command
from torvyn.cli.screen import Screen
from torvyn.cli.target import duration_s, end_options, flow_options, link_with_ends

EXAMPLE = """\
torvyn bench --rounds 10
torvyn bench --format json > before.json
torvyn bench --compare before.json --threshold 5"""


@make_command("bench", example=EXAMPLE, formats=("human", "json", "markdown"))
@flow_options
@end_options
@click.option("--warmup", type=click.IntRange(min=0), default=1, show_default=True, metavar="N",
              help="Rounds before the measured ones.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), metavar="N",
              help="Measured rounds; 5, and more for 2 seconds, unless given.")  # fmt: skip
@click.option("--duration", metavar="DURATION",
              help="Measure so long instead, such as 10s; a round ends after a tenth of it."
              )  # fmt: skip
@click.option("--compare", metavar="FILE",
              help="An earlier result; exit code 3 when the flow is slower for certain."
              )  # fmt: skip
@click.option("--threshold", type=click.FloatRange(min=0), default=10.0, show_default=True,
              metavar="PERCENT", help="How much slower is still the same.")  # fmt: skip
def command(screen: Screen, **options: Any) -> int:
    """Measure a flow.

    Runs the flow again and again, each time as new. The throughput comes from rounds without
    tracing, the percentiles of each component's calls from traced ones after them. What components
    print is dropped.
    """
    from torvyn.cli.benchmark.comparison import compare, raise_if_regressed, read_result
    from torvyn.cli.benchmark.measurement import Settings

    own = ("warmup", "rounds", "duration", "compare", "threshold")
    warmup, rounds, span, path, threshold = (options.pop(name) for name in own)
    span_s = None if span is None else duration_s("--duration", span)
    plan, limit = link_with_ends(screen, options)
    settings = Settings(warmup, rounds, span_s, limit)
    before = None if path is None else read_result(path, plan.name)
    result = _measured(screen, plan, settings)
    if isinstance(result, int):
        return result
    if before is not None:
        result["comparison"] = compare(result, before, threshold)
    _show(screen, result)
    if before is not None:
        raise_if_regressed(result["comparison"], path)
    return 0


def _measured(screen: Screen, plan: Any, settings: Any) -> dict[str, Any] | int:
    """The result, or the exit code of a round that did not come to its end."""
    from torvyn.cli.benchmark.measurement import Stopped, measure
    from torvyn.cli.stdout_redirect import output_to_stderr

    try:
        with output_to_stderr(discard=True):
            return measure(plan, settings, _progress(screen))
    except Stopped as stopped:
        if stopped.outcome.state == "failed" and stopped.outcome.error is not None:
            raise stopped.outcome.error from None
        screen.say(f"[torvyn] Flow '{plan.name}' {stopped.outcome.state}.")
        return stopped.outcome.exit_code
    finally:
        _progress(screen)("")


def _progress(screen: Screen) -> Callable[[str], None]:
    """One line that is written over, on a terminal only."""
    if screen.is_quiet or sys.stderr is None or not sys.stderr.isatty():
        return lambda text: None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show


def _show(screen: Screen, result: dict[str, Any]) -> None:
    from torvyn.cli.benchmark.report import human, markdown

    if screen.is_json:
        screen.document(result)
    elif screen.format == "markdown":
        screen.data(markdown(result))
    else:
        screen.data(human(result))
