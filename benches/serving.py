"""What does a streamed chunk cost the server?

    python -m benches.serving [--rounds R] [--tokens N] [--streams S] [--json]

A scripted engine, a block-list, server-sent events and many concurrent streams: Torvyn's server is
compared with Starlette on uvicorn with the same guard in Python, and with bare granian as the lower
bound. The server has one core; the client is another process on the other core.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Sequence

from benches.load import Question, load, text_of
from benches.peers import distribution_version
from benches.question import cannot_run, publish
from benches.report import Report
from benches.server_entries import Entry, measure, tell
from benches.server_process import module, stay_off_the_server
from benches.work_serving import MODEL, answer, is_guarded_right, right

OPENAI, OWN_FRAMES, READY = (
    "OpenAI's chunks",
    "Own frames",
    "An engine that does not wait: tokens",
)
TIMES = {OPENAI: 2.0, OWN_FRAMES: 1.6, READY: 2.0}
"""How many times as fast as the peer it should be."""
MESSAGES = [{"role": "user", "content": "Hi"}]
CHAT = Question(
    "/v1/chat/completions", {"model": MODEL, "stream": True, "messages": MESSAGES}, b'"content":'
)
OWN = Question("/v1/streams", {"prompt": "Hi"}, b'"delta",')
METHOD = """\
{streams} concurrent answers of {tokens} tokens each; one word in seventeen is on a block-list of
twenty words. The servers run one at a time on one core, and a process on the other core reads. CPU
is the user and system time of all threads of the server from /proc, including the {streams}
requests. Medians and quartiles of {rounds} interleaved rounds; ratios are computed within a round.
The text of every server is checked before it is timed. The engine waits for one turn of the loop
before each token, so every server sends one chunk per token. Torvyn writes chunks that follow
within 5 ms of the last write of their stream together, which happens here because the streams
produce as fast as they can; the peers write each of them. In the last table the engine does not
wait: Torvyn sends up to 16 tokens that are ready together in one chunk, and the peer still sends
one chunk per token; that table counts tokens."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.serving")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if cannot_run():
        return 2
    assert is_guarded_right()
    method = METHOD.format(**vars(options)).replace("\n", " ")
    report = Report("serving", "What does a streamed chunk cost the server?", method)
    stay_off_the_server()
    report.versions["granian"] = f"granian {distribution_version('granian')}"
    for title, question in ((OPENAI, CHAT), (OWN_FRAMES, OWN)):
        entries = _entries(report, options.tokens)
        _measure(entries, question, options)
        _tell(report, title, entries)
    natural = _natural(options.tokens)
    _measure(natural, CHAT, options, options.tokens * options.streams)
    _tell(report, READY, natural)
    publish(report, options.json)
    return 0


def _arguments(tokens: int) -> list[str]:
    return ["--port", "{port}", "--tokens", str(tokens)]


def _entries(report: Report, tokens: int) -> list[Entry]:
    given, said = _arguments(tokens), right(tokens)
    bare = "".join(answer(tokens))
    ours = module("benches.peers.torvyn_serve", *given, "--paced")
    floor = module("benches.peers.granian_stream", *given)
    entries = [Entry("torvyn", ours, said)]
    if _has_starlette():
        peer = module("benches.peers.starlette_stream", *given)
        entries.append(Entry("Starlette + uvicorn", peer, said))
        for name in ("starlette", "uvicorn", "uvloop"):
            report.versions[name] = f"{name} {distribution_version(name)}"
    else:
        report.left_out["Starlette + uvicorn"] = "starlette, uvicorn or uvloop is not installed"
    entries.append(Entry("torvyn without a guard", [*ours, "--bare"], bare))
    entries.append(Entry("bare granian, prepared chunks", floor, bare))
    return entries


def _natural(tokens: int) -> list[Entry]:
    given, said = _arguments(tokens), right(tokens)
    entries = [Entry("torvyn", module("benches.peers.torvyn_serve", *given), said)]
    if _has_starlette():
        peer = module("benches.peers.starlette_stream", *given, "--ready")
        entries.append(Entry("Starlette + uvicorn", peer, said))
    return entries


def _has_starlette() -> bool:
    return all(importlib.util.find_spec(name) for name in ("starlette", "uvicorn", "uvloop"))


def _measure(
    entries: list[Entry],
    question: Question,
    options: argparse.Namespace,
    tokens: int | None = None,
) -> None:
    measure(
        entries,
        options.rounds,
        lambda port: text_of(port, question),
        lambda port: load(port, question, options.streams),
        tokens,
    )


def _tell(report: Report, title: str, entries: list[Entry]) -> None:
    peer = next((entry for entry in entries if entry.name.startswith("Starlette")), None)

    def judge(entry: Entry) -> tuple[str, str]:
        if peer is None:
            return "", ""
        ratio = entry.rate_ratio(peer)
        goal = TIMES[title]
        met = "met" if ratio >= goal else "NOT met"
        return f"{ratio:.2f} x", f">= {goal:g} x: {met}" if entry.name == "torvyn" else ""

    tell(report, title, entries, ("of the peer's", "goal"), judge)


if __name__ == "__main__":
    sys.exit(main())
