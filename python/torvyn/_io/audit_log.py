"""An audit log: one JSON object per line, to standard output or appended to a private file.

Control characters are escaped, so a name that a user chose cannot forge a line.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from torvyn._io.line_output import write_lines
from torvyn.errors import TorvynError, os_reason

OpenError = Callable[[str], TorvynError]


class AuditLog:
    """Writes to `file`, to `stdout`, or nowhere (`none`)."""

    def __init__(self, to: str, file: str, logger: logging.Logger) -> None:
        self._to = to
        self._file = file
        self._logger = logger
        self._descriptor: int | None = None
        self._has_failed = False

    @property
    def is_enabled(self) -> bool:
        return self._to != "none"

    def open(self, to_error: OpenError) -> None:
        """Opens the file, or raises `to_error(message)`."""
        if self._descriptor is None:
            self.reopen(to_error)

    def reopen(self, to_error: OpenError) -> None:
        """Opens the file by its name again, after another program has moved it away. If that fails,
        the file that is open stays, and `to_error(message)` is raised."""
        if self._to != "file":
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            # Without a reader, a pipe is an error here instead of a program that hangs.
            descriptor = os.open(self._file, flags | os.O_NONBLOCK, 0o600)
            os.set_blocking(descriptor, True)
        except (OSError, ValueError) as error:
            reason = os_reason(error)
            message = f"cannot write the audit file `{self._file}`: {reason}"
            raise to_error(message) from error
        self.close()
        self._descriptor = descriptor

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
        # `json.dumps` escapes all other control characters.
        line = json.dumps({"time": now, **fields}).replace("\x7f", "\\u007f")
        try:
            self._put(line)
        except OSError as error:
            self._log_failure(error)

    def _put(self, line: str) -> None:
        if self._descriptor is not None:
            # One write per line, so that lines of several processes do not mix.
            os.write(self._descriptor, f"{line}\n".encode())
        elif self._to == "stdout" and sys.stdout is not None:
            write_lines(sys.stdout, line)
            sys.stdout.flush()

    def _log_failure(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            fields = {"event": "audit.failed"}
            self._logger.error("cannot write the audit log: %s", error, extra=fields)
