"""Timing of an engine's answers, and what OpenTelemetry calls the figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from torvyn.protocol.timing import Clock, Timing

__all__ = ["OTEL_NAMES", "Clock", "Timing", "otel"]

OTEL_NAMES: Final[Mapping[str, str]] = {
    "ttft_s": "gen_ai.server.time_to_first_token",
    "time_per_output_token_s": "gen_ai.server.time_per_output_token",
    "duration_s": "gen_ai.server.request.duration",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "queue_s": "torvyn.gen_ai.queue.duration",
    "inter_token_s": "torvyn.gen_ai.inter_token.duration",
    "gap_p50_s": "torvyn.gen_ai.chunk_gap.p50",
    "gap_p99_s": "torvyn.gen_ai.chunk_gap.p99",
    "tokens_per_s": "torvyn.gen_ai.tokens_per_second",
}
"""Our figure -> its OpenTelemetry name; those that OpenTelemetry has no name for begin with
`torvyn.`."""


def otel(figures: Mapping[str, float]) -> dict[str, float]:
    """The same figures under their OpenTelemetry names."""
    return {OTEL_NAMES[name]: value for name, value in figures.items() if name in OTEL_NAMES}
