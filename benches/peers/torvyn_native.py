"""Torvyn with built-in `scripted`, `blocklist`, `sentence` (simple), `null`: no Python per token.

`null` only counts, so the text is proven by the same flow with `collect` in its place, which is
also a row of its own (`torvyn-native-collect`).
"""

from __future__ import annotations

from typing import Any

from benches.peers import distribution_version, torvyn_missing
from benches.work import BLOCKED, SEED_TOKENS, Result

NAME = "torvyn-native"


def VERSION() -> str:
    return f"torvyn {distribution_version('torvyn')}"


def available() -> str | None:
    return torvyn_missing()


def script(tokens: list[str]) -> dict[str, Any]:
    """`scripted`'s config: the short list and its repeats where that is what the tokens are."""
    repeat, rest = divmod(len(tokens), len(SEED_TOKENS))
    if repeat and not rest:
        return {"tokens": list(SEED_TOKENS), "repeat": repeat}
    return {"tokens": tokens}


def _flow(tokens: list[str], sink: Any) -> Any:
    import torvyn
    from torvyn.components import Blocklist, Scripted, Sentence

    return torvyn.Flow(
        Scripted(script(tokens)), Blocklist(BLOCKED), Sentence({"mode": "simple"}), sink
    )


def run(tokens: list[str]) -> Result:
    from torvyn.components import Null

    flow = _flow(tokens, Null())
    flow.run()
    counted = flow.statistics
    return Result(counted.emitted, counted.filtered)


def run_collect(tokens: list[str]) -> Result:
    from torvyn.components import Collect

    sink = Collect()
    flow = _flow(tokens, sink)
    flow.run()
    return Result(sink.count, flow.statistics.filtered, sink.texts)


PROOF = run_collect
VARIANTS = {"torvyn-native-collect": run_collect}
