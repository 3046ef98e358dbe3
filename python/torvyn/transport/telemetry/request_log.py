"""The request log: one line per request and per stream, with duration and tokens but no text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from torvyn.transport.telemetry.metrics import Metrics

logger = logging.getLogger("torvyn.transport")

_SUMMARY_FIELDS: Final = (
    "flow",
    "model",
    "prompt_tokens",
    "completion_tokens",
    "finish",
    "error",
)
_NO_SUMMARY: Final[Mapping[str, Any]] = {}


class RequestLog:
    """Counts requests in the metrics, and writes a line for each."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count(self, method: str, route: str, status: int) -> None:
        self._metrics.requests[method, route, status] += 1

    def write(
        self,
        method: str,
        route: str,
        status: int,
        duration_s: float | None,
        status_name: str | None = None,
        *,
        request_id: str,
        trace_id: str | None,
        peer: str | None,
        summary: Mapping[str, Any] = _NO_SUMMARY,
        stream_id: str | None = None,
    ) -> None:
        """`summary` is that of the answer, if a service answered. What is refused on a channel has
        no duration, and a `stream_id` if its client gave one."""
        if not logger.isEnabledFor(logging.INFO):
            return
        fields: dict[str, Any] = {
            "event": "request",
            "request_id": request_id,
            "trace_id": trace_id,
            "method": method,
            "path": route,
            "status": status,
            "duration_ms": None if duration_s is None else round(duration_s * 1000, 3),
            "peer": peer,
            "stream_id": stream_id,
            **_about(summary),
        }
        words = [method, route, str(status_name or status)]
        if duration_s is not None:
            words.append(f"{duration_s * 1000:.1f} ms")
        _write(words, fields)


def log_stream(summary: Mapping[str, Any], trace_id: str) -> None:
    """One answer of a channel or a session."""
    if not logger.isEnabledFor(logging.INFO):
        return
    ids = {"request_id": summary["id"], "trace_id": trace_id}
    fields = {"event": "stream", **ids, "path": summary["path"], "peer": summary["peer"]}
    duration_ms = summary["elapsed_s"] * 1000
    fields |= {"duration_ms": round(duration_ms, 3), **_about(summary)}
    _write(["STREAM", summary["path"], summary["state"], f"{duration_ms:.1f} ms"], fields)


def _about(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in _SUMMARY_FIELDS if name in summary}


def _write(words: list[str], fields: Mapping[str, Any]) -> None:
    extra = {name: value for name, value in fields.items() if value is not None}
    logger.info("%s", " ".join([*words, *_details(fields)]), extra=extra)


def _details(fields: Mapping[str, Any]) -> list[str]:
    words = []
    if "model" in fields:
        words.append(f"flow={fields['flow']} model={fields['model']}")
        words.append(f"tokens={fields['prompt_tokens']}+{fields['completion_tokens']}")
        reasons = dict.fromkeys(one["reason"] for one in fields["finish"])
        sides = {one.get("side") for one in fields["finish"]} - {None}
        words.append(f"finish={','.join(reasons)}" + "".join(f"({side})" for side in sorted(sides)))
    if fields.get("stream_id") is not None:
        words.append(f"stream={fields['stream_id']!a}")
    if fields.get("error"):
        words.append(f"error={fields['error']}")
    return [*words, f"peer={fields['peer'] or '-'}", fields["request_id"]]
