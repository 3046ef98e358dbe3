"""A journal: one JSON object a line, on standard output or appended to a file, for its owner alone.

What others chose to be called cannot forge a line of it, nor move a terminal's cursor.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from torvyn.errors import TorvynError

Unwritable = Callable[[str], TorvynError]


class AuditLog:
    """Without a place to write to (`none`), nothing is written."""

    def __init__(self, to: str, file: str, logger: logging.Logger) -> None:
        self._to = to
        self._file = file
        self._logger = logger
        self._descriptor: int | None = None
        self._has_failed = False

    @property
    def is_enabled(self) -> bool:
        return self._to != "none"

    def open(self, unwritable: Unwritable) -> None:
        """Opens the file, or raises what `unwritable` makes of the reason."""
        if self._to != "file" or self._descriptor is not None:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            # A pipe that nobody reads is an error here, not a program that waits for a reader.
            self._descriptor = os.open(self._file, flags | os.O_NONBLOCK, 0o600)
            os.set_blocking(self._descriptor, True)
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            message = f"the audit file `{self._file}` cannot be written: {reason}"
            raise unwritable(message) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()

    def write(self, **fields: Any) -> None:
        if not self.is_enabled:
            return
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        # Whatever a terminal would obey is escaped.
        line = json.dumps({"time": now, **fields}).replace("\x7f", "\\u007f") + "\n"
        try:
            self._put(line)
        except OSError as error:
            self._complain(error)

    def _put(self, line: str) -> None:
        if self._descriptor is not None:
            # One write a line: lines of several processes do not mix.
            os.write(self._descriptor, line.encode())
        elif self._to == "stdout" and sys.stdout is not None:
            sys.stdout.write(line)
            sys.stdout.flush()

    def _complain(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            fields = {"event": "audit.failed"}
            self._logger.error("the audit cannot be written: %s", error, extra=fields)
