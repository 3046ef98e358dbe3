"""The log of requests: who asked for what, how long it took, and what it cost. It has no text."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

logger = logging.getLogger("torvyn.transport")

_KEPT: Final = ("flow", "model", "prompt_tokens", "completion_tokens", "finish", "error")
_NOTHING: Final[Mapping[str, Any]] = {}


def log_request(
    method: str,
    path: str,
    status: int,
    took_s: float,
    status_name: str | None = None,
    *,
    request_id: str,
    trace_id: str,
    peer: str | None,
    summary: Mapping[str, Any] = _NOTHING,
) -> None:
    """One request. `summary` is that of its answer, when a flow has answered."""
    if not logger.isEnabledFor(logging.INFO):
        return
    fields: dict[str, Any] = {
        "event": "request",
        "request_id": request_id,
        "trace_id": trace_id,
        "method": method,
        "path": path,
        "status": status,
        "duration_ms": round(took_s * 1000, 3),
        "peer": peer,
        **_about(summary),
    }
    words = [method, path, str(status_name or status), f"{took_s * 1000:.1f} ms"]
    logger.info("%s", " ".join([*words, *_words(fields)]), extra=_said(fields))


def log_stream(summary: Mapping[str, Any], trace_id: str) -> None:
    """One of the answers of a connection that has many, or of a session."""
    if not logger.isEnabledFor(logging.INFO):
        return
    names = ("request_id", "path", "peer")
    fields = {"event": "stream", "trace_id": trace_id, **{name: summary[name] for name in names}}
    took_ms = summary["elapsed_s"] * 1000
    fields |= {"stream": summary["id"], "duration_ms": round(took_ms, 3), **_about(summary)}
    words = ["STREAM", summary["path"], summary["state"], f"{took_ms:.1f} ms"]
    logger.info("%s", " ".join([*words, *_words(fields)]), extra=_said(fields))


def _about(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in _KEPT if name in summary}


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _words(fields: Mapping[str, Any]) -> list[str]:
    """For people: what the answer was, who asked, and the id to look for."""
    words = []
    if "model" in fields:
        words.append(f"flow={fields['flow']} model={fields['model']}")
        words.append(f"tokens={fields['prompt_tokens']}+{fields['completion_tokens']}")
        reasons = dict.fromkeys(one["reason"] for one in fields["finish"])
        sides = {one.get("side") for one in fields["finish"]} - {None}
        words.append(f"finish={','.join(reasons)}" + "".join(f"({side})" for side in sorted(sides)))
    if fields.get("error"):
        words.append(f"error={fields['error']}")
    return [*words, f"peer={fields['peer'] or '-'}", fields["request_id"]]
