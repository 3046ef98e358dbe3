"""Prints log records and warnings to standard error, as text or as JSON.

Records of components and libraries are included. Only commands call this; the library itself never
configures logging. Secrets are removed: values from the environment, and fields and `name=value`
pairs with a secret name.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import ModuleType
from typing import IO, Any, Final, TextIO

from torvyn._io.line_output import line_prefix, reserved, write_lines
from torvyn._io.safe_text import CONTROLS, REDACTED, escape_json, redact

LOGGER: Final = "torvyn"

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
}
_NAMES: Final = r"(?:[a-z0-9]+[_-])*(?:api[_-]?key|authorization|passwd|password|secret|token)"
_SECRET_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
# A match may begin only at the start of a name. Otherwise a text with many hyphens takes quadratic
# time, and texts of clients are logged.
_SECRET_PAIR: Final = re.compile(
    rf"(?<![a-z0-9])(?<![a-z0-9][_-])({_NAMES})(\s*[=:]\s*)"
    r"((?:bearer|basic)\s+[^\s,;]+|\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)
_API_KEY: Final = re.compile(r"\btvk_[A-Za-z0-9_-]{16,}")
"""A server knows only the hashes of its API keys, so keys are recognised by their form."""


class Redactor:
    """Removes secrets from texts and fields."""

    def __init__(self, secrets: Iterable[str] | Callable[[], Iterable[str]] = ()) -> None:
        self._secrets = secrets

    def text(self, text: str) -> str:
        text = redact(text, self._secrets() if callable(self._secrets) else self._secrets)
        text = _API_KEY.sub(REDACTED, text) if "tvk_" in text else text
        return _SECRET_PAIR.sub(rf"\1\2{REDACTED}", text)

    def field(self, name: str, value: Any) -> Any:
        if _SECRET_NAME.fullmatch(name):
            return REDACTED
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {str(key): self.field(str(key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.field("", item) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self.text(_inspection().safe_repr(value))


def _inspection() -> ModuleType:
    """Imported late: commands that run no component do not need it."""
    from torvyn._contract import inspection

    return inspection


def message_of(record: logging.LogRecord) -> str:
    """The message, even if the arguments of a component's record do not fit its format."""
    try:
        return record.getMessage()
    except Exception as error:
        inspection = _inspection()
        why = inspection.describe_error(error)
        return f"{inspection.safe_repr(record.msg)} (its arguments do not fit: {why})"


def rfc3339(epoch_s: float) -> str:
    """A time in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(epoch_s, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the fields of `extra`."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redactor.text(message_of(record)),
        }
        for name, value in vars(record).items():
            # Libraries such as Ray mark every record of the process with a name like `_ray_...`.
            if name not in _STANDARD_FIELDS and name not in fields and not name.startswith("_"):
                fields[name] = self._redactor.field(name, value)
        if record.exc_info:
            fields["exception"] = self._redactor.text(self.formatException(record.exc_info))
        return escape_json(json.dumps(fields, ensure_ascii=False))


class HumanFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z [torvyn] warning: ...`, with the name of another logger in place of
    `torvyn`; an exception is one line, followed by its traceback if `tracebacks`.

    Further lines of a record are indented, so no text can pass for another record.
    """

    def __init__(self, redactor: Redactor, tracebacks: bool = False) -> None:
        super().__init__()
        self._redactor = redactor
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        is_ours = record.name == LOGGER or record.name.startswith(f"{LOGGER}.")
        name = LOGGER if is_ours else record.name
        text = (
            f"{rfc3339(record.created)} [{name}] {record.levelname.lower()}: {message_of(record)}"
        )
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            text += f": {_inspection().describe_error(error)}"
            if self._tracebacks:
                text += "\n" + self.formatException(record.exc_info)
        text = self._redactor.text(text.rstrip("\n")).translate(CONTROLS)
        return text.replace("\n", "\n  ")


_STALL_S: Final = 0.5
"""A write that takes longer is stuck: nobody reads the pipe."""


def _write_limit_s() -> float:
    """Signals are handled on the main thread, which gives a record up rather than wait for a thread
    that is stuck in the same pipe. Others wait for as long as it takes."""
    return _STALL_S if threading.current_thread() is threading.main_thread() else -1


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Keeps log records and the output of components in order."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            with reserved(sys.stdout, _STALL_S) as is_free:
                if is_free and sys.stdout is not None:
                    sys.stdout.flush()
        except (OSError, ValueError, AttributeError):
            # The component that prints to a closed standard output gets the error.
            pass
        try:
            prefix = "" if isinstance(self.formatter, JsonFormatter) else line_prefix.get()
            text = self.format(record)
            with reserved(self.stream, _write_limit_s()) as is_free:
                if is_free:
                    write_lines(self.stream, text, prefix)
                    self.flush()
        except RecursionError:
            raise
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drops records that cannot be written: standard error may be closed."""


@contextmanager
def show_logs(
    format: str,
    level: int,
    secrets: Iterable[str] | Callable[[], Iterable[str]] = (),
    stream: TextIO | None = None,
    *,
    component_level: int | None = None,
) -> Iterator[None]:
    """Prints Torvyn's records from `level` on, and those of other loggers from `component_level`
    on. If nested, only the inner one prints."""
    redactor = Redactor(secrets)
    handler = _StderrHandler(stream or sys.stderr)
    tracebacks = level <= logging.INFO
    handler.setFormatter(
        JsonFormatter(redactor) if format == "json" else HumanFormatter(redactor, tracebacks)
    )
    root, ours = logging.getLogger(), logging.getLogger(LOGGER)
    before = [(logger, _state(logger)) for logger in (root, ours)]
    for logger in (root, ours):
        logger.handlers = [h for h in logger.handlers if not isinstance(h, _StderrHandler)]
        logger.addHandler(handler)
    root.setLevel(level if component_level is None else component_level)
    ours.setLevel(level)
    ours.propagate = False
    try:
        with _warnings_as_records():
            yield
    finally:
        for logger, (handlers, level_before, propagates) in before:
            logger.handlers = handlers
            logger.setLevel(level_before)
            logger.propagate = propagates


def _state(logger: logging.Logger) -> tuple[list[logging.Handler], int, bool]:
    return [*logger.handlers], logger.level, logger.propagate


@contextmanager
def _warnings_as_records() -> Iterator[None]:
    """Logs `warnings.warn` as records of the logger `py.warnings`."""
    show = warnings.showwarning

    def log(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: IO[str] | None = None,
        line: str | None = None,
    ) -> None:
        inspection = _inspection()
        name, text = inspection.class_name(category), inspection.safe_str(message)
        warning = f"{filename}:{lineno}: {name}: {text}"
        logging.getLogger("py.warnings").warning("%s", warning)

    warnings.showwarning = log
    try:
        yield
    finally:
        if warnings.showwarning is log:
            warnings.showwarning = show
