"""README.md is short, and the figures of its table are those of the stored results."""

from __future__ import annotations

import json
import re

import pytest
from benches.report import RESULTS
from pages import ROOT

README = (ROOT / "README.md").read_text()
HOW_FAST = (ROOT / "docs" / "concepts" / "how-fast.md").read_text()
ROWS = {
    "Torvyn, native components": ["torvyn-native"],
    "Torvyn, Python components": ["torvyn-python"],
    "bytewax in batches of 64 / item by item": ["bytewax-64", "bytewax-item"],
    "the same, with its state hidden in a closure": ["bytewax-64-closure", "bytewax-item-closure"],
    "`asyncio.Queue(64)` between tasks": ["asyncio-queue"],
    "plain generators": ["generators"],
    "langchain-core, sync (no queues) / async": ["langchain-sync", "langchain-async"],
    "langchain-core, sync / async": ["langchain-sync", "langchain-async"],
    "Pipecat": ["pipecat"],
    "Pipecat / without its queues / with its defaults": [
        "pipecat",
        "pipecat-direct",
        "pipecat-defaults",
    ],
}


def table(page: str) -> dict[str, tuple[list[str], list[str]]]:
    """The rows of the table of costs: microseconds, and ratios to `asyncio.Queue`."""
    found = page.partition("| | us per token |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| ([\d. /]+) \| ([\d. /]+) \|$", found, re.MULTILINE)
    return {name: (costs.split(" / "), ratios.split(" / ")) for name, costs, ratios in rows}


def is_rounded(text: str, value: float) -> bool:
    decimals = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.501 * 10**-decimals


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("page", [README, HOW_FAST], ids=["README", "how-fast"])
def test_the_table_of_peers_has_the_stored_results(page: str) -> None:
    data = json.loads((RESULTS / "token_streaming.json").read_text())["data"]

    assert len(table(page)) >= 6
    for name, (costs, ratios) in table(page).items():
        for entry, cost, ratio in zip(ROWS[name], costs, ratios, strict=True):
            assert is_rounded(cost, data[entry]["us_per_token"]["median"])
            assert is_rounded(ratio, data[entry]["ratios"]["asyncio-queue"])


def test_every_benchmark_is_on_the_page_of_figures_or_in_the_index() -> None:
    index = (ROOT / "benches" / "README.md").read_text()
    names = {path.stem for path in RESULTS.glob("*.md")}

    linked = set(re.findall(r"benches/results/(\w+)\.md", HOW_FAST))
    listed = {name.rpartition(".")[2] for name in re.findall(r"benches\.([\w.]+)", index)}
    assert linked <= names
    assert sorted(names - linked - listed - {"edge_gateway"}) == []
