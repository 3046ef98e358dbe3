"""`batch`: several elements as one, by number, by bytes or by whichever comes first.

A batch never exceeds `bytes`, except when a single element does. Nothing is reordered or left out:
what is open when the input ends is sent by `flush`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import JSON_TYPE, read_json, write_json
from torvyn.components.spec import Option, Spec
from torvyn.contract import Aggregator, Element, Output

SPEC = Spec(
    name="batch",
    role="aggregator",
    summary="Several elements as one, by number, by bytes or by whichever comes first.",
    options=(
        Option("size", "integer", 0, "How many elements make a batch; 0 is any.", minimum=0),
        Option("bytes", "size", 0, "How many bytes of payload make a batch; 0 is any."),
        Option(
            "format",
            "choice",
            "lines",
            "The texts joined by `separator`, or a JSON array of them; JSON elements stay JSON.",
            choices=("lines", "json"),
        ),
        Option("separator", "text", "\n", "What stands between the texts."),
    ),
    main="size",
    example="""\
[flow.main.nodes.batches]
component = "batch"
config = { size = 100, bytes = "64KiB", format = "json" }
""",
)


class Batch(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "batches"

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._size: int = options["size"]
        self._limit_bytes: int = options["bytes"]
        self._is_json = options["format"] == "json"
        self._separator: str = options["separator"]
        self._held: list[Any] = []
        self._held_bytes = 0
        if not self._size and not self._limit_bytes:
            raise wrong_config(
                SPEC, "it needs `size`, `bytes` or both", "`size = 10` makes batches of ten"
            )

    def ingest(self, element: Element) -> list[Output]:
        item = self._item(element)
        size_bytes = len(element.data)
        done = []
        if self._held and 0 < self._limit_bytes < self._held_bytes + size_bytes:
            done.append(self._take())
        self._held.append(item)
        self._held_bytes += size_bytes
        if len(self._held) == self._size or 0 < self._limit_bytes <= self._held_bytes:
            done.append(self._take())
        return done

    def flush(self) -> list[Output]:
        return [self._take()] if self._held else []

    def _item(self, element: Element) -> Any:
        is_json = self._is_json and element.content_type.startswith(JSON_TYPE)
        return read_json(element.text) if is_json else element.text

    def _take(self) -> Output:
        held, self._held, self._held_bytes = self._held, [], 0
        if self._is_json:
            return Output(write_json(held), content_type=JSON_TYPE)
        return Output(self._separator.join(held))
