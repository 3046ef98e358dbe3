"""What an engine hands on, raw: a step of its generation, before text is made of it.

An engine gives token ids where it has them, bytes or text where it has not. Stop strings, UTF-8 and
usage are the business of whoever reads the steps, so that every engine gets them right alike. Made
once a token, hence not frozen (that costs 2 us an object); nobody changes one all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torvyn.protocol.frames import FinishReason, Kind, ToolCall, Usage


@dataclass(slots=True)
class ChoiceStep:
    """What one choice made in a step.

    One of `token_ids`, `data` and `text` is filled; `tokens` says how many tokens it stands for
    when there are no ids. `finish_reason` is the engine's own: EOS is `stop`, a full context is
    `length`.
    """

    index: int = 0
    token_ids: Sequence[int] = ()
    data: bytes = b""
    text: str = ""
    kind: Kind = "text"
    call: ToolCall | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    tokens: int = 1
    finish_reason: FinishReason | None = None
    matched_stop: str | None = None
    native_reason: str | None = None
    """What the engine itself calls that end, where its word is not one of ours."""


@dataclass(slots=True)
class Step:
    """One step: what is ready together. `usage` when the engine knows it, at the latest at the
    end."""

    choices: Sequence[ChoiceStep]
    usage: Usage | None = None
