"""What does a guard cost per token?

    python -m benches.guards [--rounds R] [--json]

A block-list of 1,000 words with 8 stop strings, and redaction, called from Python and as stages of
a flow; compared with `re` over all the text so far, and over a window. Every entry must emit the
same text before it is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import re
import sys
import time
from collections.abc import Callable, Sequence

from benches.harness import quartiles
from benches.peers import distribution_version
from benches.peers.ahocorasick_words import WordFinder
from benches.question import cannot_run, publish, say
from benches.report import Report, Table, verdict

WORDS, TOKENS, FLOW_TOKENS, WINDOW = 1_000, 3_000, 100_000, 64
STOPS = ["</s>", "<|end|>", "\n\nUser:", "\n\nHuman:", "###", "STOP", "[END]", "<eot>"]
SECRETS = ["jo.doe@mail.example.com", "4111 1111 1111 1111", "+49 30 1234 5678"]
LETTERS = {"Cyrillic": "абвгдеийклмн", "Greek": "αβγδεζηθικλμ", "accented Latin": "eéèêaàâiîoôu"}
EMAIL = r"[\w.%+-]+@(?:[\w-]+\.)+[A-Za-z]{2,24}"
CARD = r"\b\d(?:[ -]?\d){12,18}\b"
PHONE = r"\+[1-9](?:[ ./()-]{0,2}\d){6,13}\b"
METHOD = """\
{tokens:,} tokens of about five characters; one word in two hundred is listed (for redaction, an
address or a number). The figures are CPU microseconds per token, median and quartiles of
{rounds} interleaved rounds. The flow has {flow:,} tokens from a native source to a native sink;
its figure is that of the whole flow with the guard. Scanning all the text again is timed at
every tenth token. All entries emit the same text."""

Run = Callable[[list[str]], str]
Entries = dict[str, tuple[Run, Callable[[], float] | None]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.guards")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    method = METHOD.format(tokens=TOKENS, flow=FLOW_TOKENS, rounds=options.rounds)
    report = Report("guards", "What does a guard cost per token?", method.replace("\n", " "))
    words, tokens = _work()
    _measure(
        report,
        "Block-list of 1,000 words, 8 stop strings",
        tokens,
        _lists(report, words),
        1.0,
        options,
    )
    for script, letters in LETTERS.items():
        words, tokens = _work(letters=letters)
        entries = _scripts(words, tokens)
        _measure(report, f"Block-list of 1,000 words, {script}", tokens, entries, 1.0, options)
    _measure(report, "Redaction", _work(SECRETS)[1], _redaction(), 5.0, options)
    publish(report, options.json)
    return 0


def _work(
    secrets: Sequence[str] = (), letters: str = "etaoinshrdlu"
) -> tuple[list[str], list[str]]:
    """Words to block, and tokens: pieces of words, some with a leading space."""
    chance = random.Random(7)
    words = ["".join(chance.choices(letters, k=chance.randint(5, 10))) for _ in range(WORDS)]
    text = ""
    for number in range(TOKENS):
        word = "".join(chance.choices(letters, k=chance.randint(2, 7)))
        if number % 200 == 199:
            word = chance.choice(list(secrets) or words)
        text += f" {word}" + chance.choice(["", "", "", ",", "."])
    size = -(-len(text) // TOKENS)
    return words, [text[at : at + size] for at in range(0, len(text), size)]


def _lists(report: Report, words: list[str]) -> Entries:
    from torvyn.components import Blocklist
    from torvyn.text import StopStrings

    config = {"words": words, "mode": "stream", "action": "replace"}
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b", re.IGNORECASE)
    guard = Blocklist()
    guard.init(config)  # type: ignore[arg-type]
    rules = guard._rules

    def ours(tokens: list[str]) -> str:
        guard, stops = rules.fork(), StopStrings(STOPS)
        out = [stops.put(guard.put(token)) for token in tokens]
        return "".join(out) + stops.put(guard.finish()) + stops.finish()

    entries: Entries = {
        "torvyn, called from Python": (ours, None),
        "torvyn, a flow": (ours, _flow(Blocklist, config)),
        "re over all the text so far": (_rescan(pattern, "***"), None),
        "re over a window": (_window(pattern, "***"), None),
    }
    if importlib.util.find_spec("ahocorasick") is None:
        report.left_out["pyahocorasick"] = "not installed"
    else:
        report.versions["peer"] = f"pyahocorasick {distribution_version('pyahocorasick')}"
        entries["pyahocorasick over a window"] = (_window(WordFinder(words), "***"), None)
    return entries


def _scripts(words: list[str], tokens: list[str]) -> Entries:
    """Letters beyond ASCII, whose normal form is more than lower case."""
    from torvyn.components import Blocklist

    config = {"words": words, "mode": "stream", "action": "replace"}
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b", re.IGNORECASE)
    guard = Blocklist()
    guard.init(config)  # type: ignore[arg-type]
    rules = guard._rules

    def ours(tokens: list[str]) -> str:
        guard = rules.fork()
        return "".join([guard.put(token) for token in tokens]) + guard.finish()

    return {
        "torvyn, called from Python": (ours, None),
        "torvyn, a flow": (ours, _flow(Blocklist, config, tokens=tokens)),
        "re over a window": (_window(pattern, "***"), None),
    }


def _redaction() -> Entries:
    from torvyn.components import Redact

    guard = Redact()
    guard.init("")
    rules = guard._rules
    pattern = re.compile(f"(?P<email>{EMAIL})|(?P<phone>{PHONE})|(?P<card>{CARD})")

    def ours(tokens: list[str]) -> str:
        guard = rules.fork()
        return "".join([guard.put(token) for token in tokens]) + guard.finish()

    return {
        "torvyn, called from Python": (ours, None),
        "torvyn, a flow": (ours, _flow(Redact, {}, SECRETS)),
        "re over all the text so far": (_rescan(pattern, _label), None),
        "re over a window": (_window(pattern, _label), None),
    }


def _label(match: re.Match[str]) -> str:
    return f"[{match.lastgroup}]"


def _rescan(pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str]) -> Run:
    def run(tokens: list[str]) -> str:
        text = cleaned = ""
        # Scanning all of it is quadratic, so only every tenth token is scanned.
        for number, token in enumerate(tokens):
            text += token
            if number % 10 == 0:
                cleaned = pattern.sub(by, text)
        return pattern.sub(by, text) if cleaned is not None else ""

    return run


def _window(pattern: re.Pattern[str] | WordFinder, by: str | Callable[[re.Match[str]], str]) -> Run:
    """Buffers the last characters and never splits a match."""

    def run(tokens: list[str]) -> str:
        out, buffer = [], ""
        for token in tokens:
            buffer += token
            cut = len(buffer) - WINDOW
            if cut <= 0:
                continue
            # Cut at a space, because the start of the buffer counts as a word boundary.
            while cut > 0 and not buffer[cut - 1].isspace():
                cut -= 1
            for match in pattern.finditer(buffer):
                if match.start() < cut < match.end():
                    cut = match.start()
            out.append(pattern.sub(by, buffer[:cut]))
            buffer = buffer[cut:]
        return "".join(out) + pattern.sub(by, buffer)

    return run


def _flow(
    cls: type, config: object, secrets: Sequence[str] = (), tokens: Sequence[str] = ()
) -> Callable[[], float]:
    """CPU microseconds per token of a native flow with the guard."""
    import torvyn
    from torvyn.components import Null, Scripted

    tokens = list(tokens) or _work(secrets)[1]
    repeat = FLOW_TOKENS // len(tokens)

    def run() -> float:
        flow = torvyn.Flow(Scripted({"tokens": tokens, "repeat": repeat}), cls(config), Null())
        start = time.process_time()
        flow.run()
        return (time.process_time() - start) / (len(tokens) * repeat) * 1e6

    return run


def _measure(
    report: Report,
    title: str,
    tokens: list[str],
    entries: Entries,
    target_us: float,
    options: argparse.Namespace,
) -> None:
    outputs = {name: run(tokens) for name, (run, _) in entries.items()}
    for name, text in outputs.items():
        assert text == outputs["torvyn, called from Python"], f"{name} emits other text"
    costs: dict[str, list[float]] = {name: [] for name in entries}
    for number in range(options.rounds):
        say(f"{title}: round {number + 1} of {options.rounds}")
        for name, (run, flow) in entries.items():
            costs[name].append(flow() if flow else _timed(run, tokens, "so far" in name))
    table = Table(("", "CPU us per token", "quartiles", "target"), title=title)
    for name, values in costs.items():
        low, middle, high = quartiles(values)
        goal = verdict(middle, target_us) if name.startswith("torvyn") else ""
        table.rows.append([name, f"{middle:.3f}", f"{low:.3f}-{high:.3f}", goal])
    report.tables.append(table)
    report.data[title] = costs


def _timed(run: Run, tokens: list[str], tenth: bool) -> float:
    start = time.process_time()
    run(tokens)
    spent_us = (time.process_time() - start) * 1e6
    return spent_us / len(tokens) * (10 if tenth else 1)


if __name__ == "__main__":
    sys.exit(main())
