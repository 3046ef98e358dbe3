"""`json-map`: renames, picks, drops and sets fields of JSON objects.

The steps run in the order rename, pick, drop, set, so each sees the names that the one before it
made. A field that is not there is passed over.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from torvyn.components.config import parse_config
from torvyn.components.json_fields import (
    JSON_TYPE,
    MISSING,
    get_field,
    put_field,
    read_object,
    take_field,
    write_json,
)
from torvyn.components.spec import Option, Spec
from torvyn.contract import Element, Output, Processor

SPEC = Spec(
    name="json-map",
    role="processor",
    summary="Renames, picks, drops and sets fields of JSON objects, in that order.",
    options=(
        Option("rename", "text table", {}, "New name = old name; dotted paths reach inside."),
        Option("pick", "words", (), "The fields to keep; without it, all."),
        Option("drop", "words", (), "The fields to leave out."),
        Option("set", "table", {}, "Field = value, whatever was there before."),
    ),
    example="""\
[flow.main.nodes.shape]
component = "json-map"
config = { rename = { celsius = "reading.temp" }, drop = ["debug"], set = { site = "roof" } }
""",
)


class JsonMap(Processor):
    spec: ClassVar[Spec] = SPEC

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._rename: dict[str, str] = options["rename"]
        self._pick: tuple[str, ...] = options["pick"]
        self._drop: tuple[str, ...] = options["drop"]
        self._set: dict[str, Any] = options["set"]

    def process(self, element: Element) -> Output:
        return Output(write_json(self._map(read_object(element))), content_type=JSON_TYPE)

    def _map(self, record: dict[str, Any]) -> dict[str, Any]:
        # All are read before one is taken or put: two may change places, one may go to two.
        moved = {new: get_field(record, old) for new, old in self._rename.items()}
        for old in self._rename.values():
            take_field(record, old)
        for new, value in moved.items():
            if value is not MISSING:
                put_field(record, new, value)
        if self._pick:
            record = _picked(record, self._pick)
        for path in self._drop:
            take_field(record, path)
        for path, value in self._set.items():
            put_field(record, path, copy.deepcopy(value))
        return record


def _picked(record: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    for path in paths:
        value = get_field(record, path)
        if path in record:
            picked[path] = value
        elif value is not MISSING:
            put_field(picked, path, value)
    return picked
