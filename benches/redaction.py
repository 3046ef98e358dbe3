"""What does `redact` find, and what does it leave alone?

    python -m benches.redaction [--texts N] [--json]

Lines with marked sensitive data (`data/redaction`), and generated ordinary numbers; compared with
Presidio's recognisers, for the kinds that both support.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benches.labelled_lines import Recogniser, Score, Span, judge, load
from benches.ordinary_numbers import AMBIGUOUS, GENERATORS, texts
from benches.peers import presidio_patterns
from benches.question import cannot_run, publish, say
from benches.report import Report, Table

METHOD = """\
{positive} lines with sensitive data and {negative} without, in many formats and languages. The
rules were tuned on the set `tuning` only; `held_out` was written before them (at first its
precision was 0.983 and its recall 1.000). Recall is the share of marked spans that spans of
their kind cover completely. Precision is the share of found spans that overlap a marked one of
their kind. Ordinary numbers: the share of {texts:,} generated texts with any match. Presidio:
its recognisers without a language model, for the six kinds that it supports; it rejects the
top-level domain `.example`, which five of the lines use."""

SETS = ("held_out", "tuning")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.redaction")
    parser.add_argument("--texts", type=int, default=5_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    lines = [line for name in SETS for line in load(name)]
    positive = sum(bool(line.spans) for line in lines)
    method = METHOD.format(
        positive=positive, negative=len(lines) - positive, texts=options.texts
    ).replace("\n", " ")
    report = Report("redaction", "What does redact find, and what does it leave alone?", method)
    recognisers = _recognisers(report)
    _labelled(report, recognisers)
    _by_kind(report)
    _numbers(report, recognisers, options.texts)
    publish(report, options.json)
    return 0


def redact(kinds: Sequence[str] = ()) -> Recogniser:
    """The spans that `redact` finds in a text."""
    from torvyn.components import Redact
    from torvyn.components.builtin.filter_redact import DATA_KINDS

    guard = Redact()
    guard.init({"data": list(kinds or DATA_KINDS)})  # type: ignore[arg-type]
    rules = guard._rules
    assert rules is not None

    def recognise(text: str) -> list[Span]:
        stream = rules.fork()
        stream.put(text)
        stream.finish()
        return [
            Span(DATA_KINDS[rule], position, position + length)
            for rule, position, length, _ in stream.take_findings()
        ]

    return recognise


def _recognisers(report: Report) -> dict[str, Recogniser]:
    entries: dict[str, Recogniser] = {"torvyn": redact()}
    reason = presidio_patterns.available()
    if reason is None:
        report.versions["peer"] = presidio_patterns.VERSION()
        entries[presidio_patterns.NAME] = presidio_patterns.Presidio()
    else:
        report.left_out[presidio_patterns.NAME] = reason
    return entries


def _row(name: str, part: str, score: Score) -> list[str]:
    counts = f"{score.marked.total()} / {score.found.total()}"
    return [name, part, counts, f"{score.precision:.3f}", f"{score.recall:.3f}"]


def _labelled(report: Report, recognisers: dict[str, Recogniser]) -> None:
    from torvyn.components.builtin.filter_redact import DATA_KINDS

    both = tuple(presidio_patterns.RECOGNISERS)
    columns = ("", "lines", "marked / found", "precision", "recall")
    table = Table(columns, title="Labelled lines")
    for part in SETS:
        lines = load(part)
        table.rows.append(
            _row("torvyn, all ten kinds", part, judge(lines, recognisers["torvyn"], DATA_KINDS))
        )
        for name, recognise in recognisers.items():
            say(f"{name}: {part}")
            score = judge(lines, recognise, both)
            table.rows.append(_row(f"{name}, six kinds", part, score))
            report.data[f"{name} {part}"] = [score.precision, score.recall]
    report.tables.append(table)


def _by_kind(report: Report) -> None:
    from torvyn.components.builtin.filter_redact import DATA_KINDS

    table = Table(("", "marked", "precision", "recall"), title="torvyn by kind, all lines")
    lines = [line for name in SETS for line in load(name)]
    score = judge(lines, redact(), DATA_KINDS)
    for kind in DATA_KINDS:
        precision = score.right[kind] / max(score.found[kind], 1)
        recall = score.covered[kind] / max(score.marked[kind], 1)
        table.rows.append([kind, str(score.marked[kind]), f"{precision:.3f}", f"{recall:.3f}"])
    report.tables.append(table)


def _numbers(report: Report, recognisers: dict[str, Recogniser], count: int) -> None:
    table = Table(("", *recognisers), title="Ordinary numbers: texts with a match")
    for name, generator in {**GENERATORS, **AMBIGUOUS}.items():
        say(name)
        shares = [
            sum(bool(list(recognise(text))) for text in texts(generator, count)) / count
            for recognise in recognisers.values()
        ]
        table.rows.append([name, *(f"{share:.2%}" for share in shares)])
        report.data[name] = shares
    report.tables.append(table)


if __name__ == "__main__":
    sys.exit(main())
