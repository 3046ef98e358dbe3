"""`file`: writes each element to a file, completely or not at all.

`push` returns after the operating system has the record, so it survives the process. When the disk
is full, the sink removes the partial record: the file ends with the last complete record, and the
element can be retried.
"""

from __future__ import annotations

import base64
import errno
import os
import stat
from typing import Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import to_json_value, write_json
from torvyn.components.spec import Option, Spec
from torvyn.components.text_files import open_to_append
from torvyn.contract import Element, End, Sink
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="file",
    role="sink",
    summary="Writes each element to a file, completely or not at all.",
    options=(
        Option("path", "text", None, "The file to write; its folder must exist.", required=True),
        Option(
            "mode",
            "choice",
            "append",
            "Whether to keep or to clear the file's content.",
            choices=("append", "truncate"),
        ),
        Option(
            "format",
            "choice",
            "lines",
            "`lines` writes one payload per line, `text` the payloads without separators, `json` "
            "one JSON object per line: `sequence`, `content_type`, `attributes` and `data`, or "
            "`base64` for bytes.",
            choices=("lines", "text", "json"),
        ),
        Option("fsync", "boolean", False, "Wait for the disk when the stream ends."),
    ),
    main="path",
    example="""\
[flow.main.nodes.archive]
component = "file"
config = { path = "events.jsonl", format = "json", fsync = true }
""",
)


class File(Sink):
    spec: ClassVar[Spec] = SPEC

    _descriptor: int | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._path: str = options["path"]
        self._format: str = options["format"]
        self._fsync: bool = options["fsync"]
        if not self._path:
            raise wrong_config(SPEC, "`path` is empty", "set `path` to the file to write")
        truncate = options["mode"] == "truncate"
        self._descriptor = open_to_append(SPEC, self._path, truncate=truncate)
        self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def push(self, element: Element) -> None:
        if self._format == "json":
            self._write(_record(element))
        elif self._format == "lines":
            self._write(bytes(element.data) + b"\n")
        else:
            self._write(bytes(element.data))

    def complete(self, end: End) -> None:
        if self._fsync and self._is_regular and self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise self._unavailable(error) from error

    def teardown(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, record: bytes) -> None:
        if self._descriptor is None:
            raise Unavailable(f"cannot write {self._path}: it is not open")
        written = 0
        try:
            while written < len(record):
                written += os.write(self._descriptor, memoryview(record)[written:])
        except BrokenPipeError:
            raise
        except OSError as error:
            self._remove_partial(self._descriptor, written)
            raise self._unavailable(error) from error

    def _remove_partial(self, descriptor: int, written: int) -> None:
        if written and self._is_regular:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)

    def _unavailable(self, error: OSError) -> Unavailable:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        hint = "free some disk space; all earlier elements are in the file" if full else None
        return Unavailable(f"cannot write {self._path}: {error.strerror}", hint=hint)


def _record(element: Element) -> bytes:
    attributes = dict(element.attributes)
    error = attributes.get("error")
    redact = element.context and element.context.redact
    if redact and isinstance(error, dict) and "message" in error:
        # A dead letter: the component's message may contain a secret.
        attributes["error"] = {**error, "message": redact(str(error["message"]))}
    record: dict[str, Any] = {
        "sequence": element.sequence,
        "content_type": element.content_type,
        "attributes": to_json_value(attributes),
    }
    try:
        record["data"] = element.text
    except InvalidInput:
        record["base64"] = base64.b64encode(element.data).decode()
    return write_json(record).encode() + b"\n"
