"""`file`: writes each element to a file, completely or not at all.

`push` returns after the operating system has the record, so it survives the process; with `fsync`,
after the disk has it, so it survives a power cut.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn.components.batch_results import BatchResults, Results
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.files.append_file import MODE, PATH, AppendFile
from torvyn.components.json_fields import to_json_value, write_json
from torvyn.components.line_format import encode_json_line
from torvyn.components.spec import Option, Spec
from torvyn.errors import InvalidInput, Unavailable

SPEC = Spec(
    name="file",
    role="sink",
    summary="Writes each element to a file, completely or not at all.",
    options=(
        PATH,
        MODE,
        Option(
            "format",
            "choice",
            "lines",
            "`lines` writes one payload per line, `jsonl` one JSON payload per line, `text` the "
            "payloads without separators, `json` one JSON object per line: `sequence`, "
            "`content_type`, `attributes` and `data`, or `base64` for bytes.",
            choices=("lines", "jsonl", "text", "json"),
        ),
        Option(
            "fsync",
            "boolean",
            False,
            "Wait for the disk before an element counts as delivered; the elements that are "
            "waiting share one wait.",
        ),
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

    _file: AppendFile | None = None

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        path: str = options["path"]
        if not path:
            raise wrong_config(SPEC, "`path` is empty", "set `path` to the file to write")
        self._encode = _ENCODERS[options["format"]]
        truncate = options["mode"] == "truncate" and not self.is_successor
        self._file = AppendFile(SPEC, path, truncate=truncate, fsync=options["fsync"])
        if options["format"] != "text":
            self._file.end_line()

    def push(self, element: Element) -> None:
        self._open.write(self._encode(element))

    def push_batch(self, elements: Sequence[Element]) -> Results | None:
        results = BatchResults(elements, self._encode)
        self._open.write(b"".join(results.values))
        return results.answer

    def teardown(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def _open(self) -> AppendFile:
        if self._file is None:
            raise Unavailable("the file is not open")
        return self._file


def _line(element: Element) -> bytes:
    return bytes(element.data) + b"\n"


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


_ENCODERS: Final[dict[str, Callable[[Element], bytes]]] = {
    "lines": _line,
    "jsonl": encode_json_line,
    "text": lambda element: bytes(element.data),
    "json": _record,
}
