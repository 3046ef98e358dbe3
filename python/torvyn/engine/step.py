"""Steps: the raw output of an engine.

An engine sends token ids if it has them, else bytes or text. The reader of the steps handles UTF-8,
stop strings and usage, the same for all engines. Treat steps as read-only; they are not frozen
because that costs 2 us per object, and there is one per token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torvyn.protocol.frames import FinishReason, Kind, ToolCall, Usage


@dataclass(slots=True)
class ChoiceStep:
    """The output of one choice in a step.

    One of `token_ids`, `data` and `text` is set; `tokens` is the number of tokens if there are no
    ids. `finish_reason` is the engine's own: EOS is `stop`, a full context is
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
    """The engine's own name for the finish, if it differs from ours."""


@dataclass(slots=True)
class Step:
    """One step: all output that is ready together, and the usage when the engine knows it."""

    choices: Sequence[ChoiceStep]
    usage: Usage | None = None
