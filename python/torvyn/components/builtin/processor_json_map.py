"""`json-map`: renames, picks, drops and sets fields of JSON objects.

The steps run in the order rename, pick, drop, set; each sees the result of the step before. Missing
fields are ignored.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Processor
from torvyn.components.config import parse_config
from torvyn.components.json_fields import (
    JSON_TYPE,
    MISSING,
    get_field,
    parse_object,
    pop_field,
    set_field,
    write_json,
)
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="json-map",
    role="processor",
    summary="Renames, picks, drops and sets fields of JSON objects, in that order.",
    options=(
        Option("rename", "text table", {}, "New name = old name; dotted paths name nested fields."),
        Option("pick", "words", (), "The fields to keep; default: all."),
        Option("drop", "words", (), "The fields to remove."),
        Option("set", "table", {}, "Field = value; replaces the old value."),
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
        return Output(write_json(self._map(parse_object(element))), content_type=JSON_TYPE)

    def _map(self, record: dict[str, Any]) -> dict[str, Any]:
        # Read all before changing any: two fields may swap, and one may be copied to two.
        moved = {new: get_field(record, old) for new, old in self._rename.items()}
        for old in self._rename.values():
            pop_field(record, old)
        for new, value in moved.items():
            if value is not MISSING:
                set_field(record, new, value)
        if self._pick:
            record = _pick_fields(record, self._pick)
        for path in self._drop:
            pop_field(record, path)
        for path, value in self._set.items():
            set_field(record, path, copy.deepcopy(value))
        return record


def _pick_fields(record: dict[str, Any], paths: tuple[str, ...]) -> dict[str, Any]:
    picked: dict[str, Any] = {}
    for path in paths:
        value = get_field(record, path)
        if path in record:
            picked[path] = value
        elif value is not MISSING:
            set_field(picked, path, value)
    return picked
