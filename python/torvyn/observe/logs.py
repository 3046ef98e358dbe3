"""Logs: log records and warnings on standard error, for people or as JSON.

What components and libraries log is shown like the records of `torvyn` itself. A library does not
touch logging by itself: only commands call this. Nothing secret is written: no value that came from
the environment, no field or `name=value` whose name says that it is secret.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import ModuleType
from typing import IO, Any, Final

from torvyn.text.control_characters import BIDI_CONTROLS, CONTROLS, LINE_SEPARATORS
from torvyn.text.redaction import REDACTED, redact

LOGGER: Final = "torvyn"

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NAMES: Final = r"(?:[a-z0-9]+[_-])*(?:api[_-]?key|authorization|passwd|password|secret|token)"
_SECRET_NAME: Final = re.compile(_NAMES, re.IGNORECASE)
# A name begins where no other can have begun: else a text of many hyphens is read as often as it
# has some, and whoever is quoted decides how long that takes.
_SECRET_PAIR: Final = re.compile(
    rf"(?<![a-z0-9])(?<![a-z0-9][_-])({_NAMES})(\s*[=:]\s*)"
    r"((?:bearer|basic)\s+[^\s,;]+|\"[^\"]*\"|'[^']*'|[^\s,;&]+)",
    re.IGNORECASE,
)
_OUR_KEY: Final = re.compile(r"\btvk_[A-Za-z0-9_-]{16,}")
"""A key of a server, which knows only its hash: it is recognised by how it looks."""
_BEYOND_JSON: Final = {
    code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *BIDI_CONTROLS, *LINE_SEPARATORS)
}
"""Controls that JSON does not have to escape and terminals obey."""


class Redactor:
    """Takes secrets out of texts and fields."""

    def __init__(self, secrets: Iterable[str] | Callable[[], Iterable[str]] = ()) -> None:
        self._secrets = secrets

    def text(self, text: str) -> str:
        text = redact(text, self._secrets() if callable(self._secrets) else self._secrets)
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
        return self.text(_probe().safe_repr(value))


def _probe() -> ModuleType:
    """Late: commands that run no component do not load what components are made of."""
    from torvyn.contract import inspection

    return inspection


def message_of(record: logging.LogRecord) -> str:
    """The message; of a component's record, the arguments may not fit their text."""
    try:
        return record.getMessage()
    except Exception as error:
        inspection = _probe()
        misfit = inspection.describe_error(error)
        return f"{inspection.safe_repr(record.msg)} (its arguments do not fit: {misfit})"


def rfc3339(epoch_s: float) -> str:
    """A moment in UTC, to the millisecond."""
    made = datetime.fromtimestamp(epoch_s, UTC)
    return made.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class JsonFormatter(logging.Formatter):
    """A record a line, with the fields that were given as `extra`."""

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
            if name not in _PLAIN and name not in fields:
                fields[name] = self._redactor.field(name, value)
        if record.exc_info:
            fields["exception"] = self._redactor.text(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False).translate(_BEYOND_JSON)


class HumanFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z [torvyn] warning: ...`, or the name of another logger in place of
    `torvyn`; an exception is one line, with its traceback when asked for.

    Only the first line of a record begins at the margin, so no text can pass for another record.
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
            text += f": {_probe().describe_error(error)}"
            if self._tracebacks:
                text += "\n" + self.formatException(record.exc_info)
        text = self._redactor.text(text.rstrip("\n")).translate(CONTROLS)
        return text.replace("\n", "\n  ")


class _Output(logging.StreamHandler[IO[str]]):
    """Writes records in their order with what components print."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except (OSError, ValueError, AttributeError):
            # A closed standard output is found by the component that prints there.
            pass
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """What cannot be said is not said: nobody may listen any more."""


@contextmanager
def show_logs(
    format: str,
    level: int,
    secrets: Iterable[str] | Callable[[], Iterable[str]] = (),
    stream: IO[str] | None = None,
    *,
    component_level: int | None = None,
) -> Iterator[None]:
    """Shows the records of `torvyn` from `level` on, and those of all other loggers from
    `component_level` on, while it is entered. Entered a second time, the inner one shows."""
    redactor = Redactor(secrets)
    output = _Output(stream or sys.stderr)
    tracebacks = level <= logging.INFO
    output.setFormatter(
        JsonFormatter(redactor) if format == "json" else HumanFormatter(redactor, tracebacks)
    )
    root, ours = logging.getLogger(), logging.getLogger(LOGGER)
    before = [(logger, _state(logger)) for logger in (root, ours)]
    for logger in (root, ours):
        logger.handlers = [kept for kept in logger.handlers if not isinstance(kept, _Output)]
        logger.addHandler(output)
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
    """`warnings.warn` becomes a record of the logger `py.warnings`."""
    show = warnings.showwarning

    def log(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: IO[str] | None = None,
        line: str | None = None,
    ) -> None:
        name, said = _probe().class_name(category), _probe().safe_str(message)
        text = f"{filename}:{lineno}: {name}: {said}"
        logging.getLogger("py.warnings").warning("%s", text)

    warnings.showwarning = log
    try:
        yield
    finally:
        if warnings.showwarning is log:
            warnings.showwarning = show
