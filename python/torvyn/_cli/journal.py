"""Entries of systemd's journal, as lines of text.

A flow logs JSON objects; systemd and Python itself log text.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

from torvyn._io.safe_text import escape_controls

_LEVELS: Final = ("error", "error", "error", "error", "warning", "info", "info", "debug")
"""By the priorities of syslog."""


def render_entry(line: str, is_json: bool) -> str:
    """One entry of `journalctl --output=json`, as the flow's JSON or for people."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    record = _record(entry)
    if is_json:
        return json.dumps(record) + "\n"
    time = datetime.fromtimestamp(int(entry.get("__REALTIME_TIMESTAMP", 0)) / 1e6).astimezone()
    text = escape_controls(str(record.get("message", "")))
    return f"{time:%Y-%m-%d %H:%M:%S} {record.get('level', 'info'):7} {text}\n"


def _record(entry: dict[str, Any]) -> dict[str, Any]:
    """What the flow logged; other messages in the same form."""
    message = entry.get("MESSAGE")
    if isinstance(message, list):
        # The journal stores a message that is not text as a list of bytes.
        message = bytes(message).decode(errors="replace")
    message = message or ""
    try:
        record = json.loads(message)
    except ValueError:
        record = None
    if isinstance(record, dict):
        return record
    priority = str(entry.get("PRIORITY", "6"))
    level = _LEVELS[int(priority)] if priority in "01234567" else "info"
    return {"level": level, "logger": entry.get("SYSLOG_IDENTIFIER", ""), "message": message}
