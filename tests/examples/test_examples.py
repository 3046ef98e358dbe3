"""Every example has a page, and its output and files are as documented."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SANDBOXED = (
    "edge-gateway",
    "token-streaming-c",
    "token-streaming-mixed",
    "token-streaming-rust",
    "token-streaming-wasm",
)
"""They need toolchains; `test_sandboxed_examples.py` and `test_edge_gateway.py` test them."""

NEEDS_MODEL = ("chat-local",)
"""`test_chat_examples.py` tests it."""

SERVED = ("cluster-chat", "fastapi-embed", "gateway")
"""Servers; `tests/transport` and `test_cluster_chat.py` test them."""

NAMES = sorted(
    {path.parent.name for path in EXAMPLES.glob("*/README.md")}
    - {*SANDBOXED, *NEEDS_MODEL, *SERVED}
)

COMMANDS = {
    "backpressure-demo": "torvyn run --stats",
    "fan-out": "torvyn run --stats",
    "guarded-chat": "printf 'Who can help me?\\n' | torvyn chat --flow chat",
    "guarded-prompt": "torvyn run --input question.txt",
    "notebook": "python notebook.py",
    "notebook-style": "python flow.py",
    "summarise-stream": "torvyn run --input prompt.txt",
    "token-streaming": "torvyn run flow.main",
}

SEED = """\
[torvyn] Running flow 'main'

[output-sink] sentence 0: The quick brown fox jumped over the lazy dog.
[output-sink] sentence 1: The was filtered.
[output-sink] sentence 2: Torvyn handles streaming tokens.
[output-sink] Stream complete.

[torvyn] Flow 'main' completed.
[torvyn] 20 tokens produced | 1 filtered | 3 sentences emitted
"""

DOCUMENTED_MANIFEST = "be77ea141b21381288e88cf2aed1878f3934c53126942a29f2170f7250abe476"
"""The digest of the manifest in the document that the example follows to the letter."""


def test_the_docs_list_every_example() -> None:
    assert NAMES == [
        "backpressure-demo",
        "cluster-pipeline",
        "event-enrichment",
        "fan-out",
        "guarded-chat",
        "guarded-prompt",
        "hello-world",
        "notebook",
        "notebook-style",
        "stream-transform",
        "summarise-stream",
        "token-streaming",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_has_the_expected_output(
    name: str,
    shell: Callable[[str, Path], str],
    same: Callable[[str, str], None],
    tmp_path: Path,
) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, symlinks=True)

    printed = shell(COMMANDS.get(name, "torvyn run"), folder)

    same(printed, (folder / "expected.txt").read_text())
    for expected in (folder / "expected").glob("*"):
        assert (folder / expected.name).read_text() == expected.read_text()


@pytest.mark.promise("tokens.manifest")
def test_the_manifest_of_token_streaming_does_not_change() -> None:
    text = (EXAMPLES / "token-streaming" / "Torvyn.toml").read_bytes()

    assert hashlib.sha256(text).hexdigest() == DOCUMENTED_MANIFEST


@pytest.mark.promise("tokens.transcript")
def test_the_transcript_of_token_streaming_does_not_change() -> None:
    assert (EXAMPLES / "token-streaming" / "expected.txt").read_text() == SEED
