"""A piece of an answer. Most pieces are text of the only choice and nothing else: those travel as a
plain `str` inside the process. Everything else is a `Delta`, and so is all that a program reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torvyn.protocol.completion import Choice, Completion
from torvyn.protocol.frames import FinishReason, Kind, ToolCall, Usage

__all__ = ["Choice", "Completion", "Delta", "Piece", "as_delta"]


@dataclass(slots=True)
class Delta:
    """What is new in one choice.

    The last delta of a request carries its usage and no text. Each choice has one `finish_reason`.
    Treat it as read-only; it is not frozen because that would cost more than the rest of it.
    """

    index: int = 0
    text: str = ""
    kind: Kind = "text"
    call: ToolCall | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    token_ids: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    matched_stop: str | None = None
    usage: Usage | None = None
    native_reason: str | None = None
    """The engine's own name for the finish, if it differs from ours."""

    @property
    def delta_text(self) -> str:
        """The same as `text`."""
        return self.text

    @property
    def delta_logprob_json_strs(self) -> list[str] | None:
        """The log probabilities, one JSON object per token."""
        if self.logprobs is None:
            return None
        return [json.dumps(entry, ensure_ascii=False) for entry in self.logprobs]

    @property
    def request_final_usage_json_str(self) -> str | None:
        """The usage of the request as JSON; None on all deltas but the last."""
        if self.usage is None:
            return None
        counts = {
            "prompt_tokens": self.usage.prompt_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "total_tokens": self.usage.total_tokens,
        }
        return json.dumps(counts)


Piece = str | Delta
"""A `str` is never empty; it is text of the only choice and nothing else."""


def as_delta(piece: Piece) -> Delta:
    return Delta(0, piece) if isinstance(piece, str) else piece
