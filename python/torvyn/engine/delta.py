"""What a caller of an engine gets: deltas while it streams, a completion when it is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torvyn.protocol.completion import Choice, Completion
from torvyn.protocol.frames import FinishReason, Kind, ToolCall, Usage

__all__ = ["Choice", "Completion", "Delta"]


@dataclass(slots=True)
class Delta:
    """What is new in one choice.

    The last one of a request carries its usage and no text. `finish_reason` comes once a choice.
    To be read only; not frozen, because one is made for every token and freezing costs most of it.
    """

    index: int = 0
    delta_text: str = ""
    kind: Kind = "text"
    call: ToolCall | None = None
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    token_ids: Sequence[int] = ()
    finish_reason: FinishReason | None = None
    matched_stop: str | None = None
    usage: Usage | None = None
    native_reason: str | None = None
    """What the engine itself calls that finish, where its word is not one of ours."""

    @property
    def delta_logprob_json_strs(self) -> list[str] | None:
        """The log probabilities of the delta's tokens, each as JSON."""
        if self.logprobs is None:
            return None
        return [json.dumps(entry, ensure_ascii=False) for entry in self.logprobs]

    @property
    def request_final_usage_json_str(self) -> str | None:
        """The request's usage as JSON; on the last delta alone."""
        if self.usage is None:
            return None
        counts = {
            "prompt_tokens": self.usage.prompt_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "total_tokens": self.usage.total_tokens,
        }
        return json.dumps(counts)
