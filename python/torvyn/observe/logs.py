"""Logs: the records of the `torvyn` logger on standard error, for people or as JSON.

A library does not touch logging by itself: only commands call this. Nothing secret is written: no
value that came from the environment, no field or `name=value` whose name says that it is secret.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, Final

from torvyn.text.visible import CONTROLS

REDACTED: Final = "[redacted]"

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NAMES: Final = r"(?:[a-z0-9]+[_-])*(?:api[_-]?key|authorization|passwd|password|secret|token)"
_SECRET_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
_SECRET_PAIR: Final = re.compile(
    rf"\b({_NAMES})(\s*[=:]\s*)((?:bearer|basic)\s+[^\s,;]+|\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)
_OUR_KEY: Final = re.compile(r"\btvk_[A-Za-z0-9_-]{16,}")
"""A key of a server, which knows only its hash: it is recognised by how it looks."""
_CONTROLS: Final = CONTROLS | {0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Shown, not obeyed: a record may quote what streamed through a flow."""
_BEYOND_JSON: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029)}
"""Controls that JSON does not have to escape and terminals obey."""


class Redactor:
    """Takes secrets out of texts and fields."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # The longest first: no part of one that holds another is left over.
        self._secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        text = _OUR_KEY.sub(REDACTED, text) if "tvk_" in text else text
        return _SECRET_PAIR.sub(rf"\1\2{REDACTED}", text)

    def field(self, name: str, value: Any) -> Any:
        if _SECRET_NAME.fullmatch(name):
            return REDACTED
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {str(key): self.field(str(key), held) for key, held in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.field("", held) for held in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self.text(str(value))


class JsonFormatter(logging.Formatter):
    """A record a line, with the fields that were given as `extra`."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redactor.text(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _PLAIN and name not in fields:
                fields[name] = self._redactor.field(name, value)
        if record.exc_info:
            fields["exception"] = self._redactor.text(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False).translate(_BEYOND_JSON)


class HumanFormatter(logging.Formatter):
    """`[torvyn] warning: ...`; an exception is one line, with its traceback when asked for.

    Only the first line of a record begins at the margin, so no text can pass for another record.
    """

    def __init__(self, redactor: Redactor, tracebacks: bool = False) -> None:
        super().__init__()
        self._redactor = redactor
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        text = f"[torvyn] {record.levelname.lower()}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f": {type(error).__name__}: {error}"
            if self._tracebacks:
                text += "\n" + self.formatException(record.exc_info)
        text = self._redactor.text(text.rstrip("\n")).translate(_CONTROLS)
        return text.replace("\n", "\n  ")


class _Output(logging.StreamHandler[IO[str]]):
    """Writes records in their order with what components print."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except (OSError, ValueError):
            # A closed standard output is found by the component that prints there.
            pass
        super().emit(record)


@contextmanager
def show_logs(
    format: str, level: int, secrets: Iterable[str] = (), stream: IO[str] | None = None
) -> Iterator[None]:
    """Shows the records of `torvyn` from `level` on, while it is entered."""
    redactor = Redactor(secrets)
    output = _Output(stream or sys.stderr)
    tracebacks = level <= logging.INFO
    output.setFormatter(
        JsonFormatter(redactor) if format == "json" else HumanFormatter(redactor, tracebacks)
    )
    logger = logging.getLogger("torvyn")
    before = (logger.level, logger.propagate)
    logger.addHandler(output)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(output)
        logger.setLevel(before[0])
        logger.propagate = before[1]
