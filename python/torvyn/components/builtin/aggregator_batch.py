"""`batch`: joins several elements into one.

A batch never exceeds `bytes`, unless a single element does. An incomplete batch is sent when its
first element has waited for `linger`, or at the end, so no element is lost or reordered.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Aggregator
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.json_fields import JSON_TYPE, parse_json, write_json
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="batch",
    role="aggregator",
    summary="Joins elements into batches, by count, bytes or time, whichever limit comes first.",
    options=(
        Option(
            "size", "integer", 0, "The number of elements per batch; 0 means no limit.", minimum=0
        ),
        Option("bytes", "size", 0, "The payload bytes per batch; 0 means no limit."),
        Option(
            "linger",
            "duration",
            0.0,
            "How long the first element of a batch waits for more; 0 means no limit.",
        ),
        Option(
            "format",
            "choice",
            "lines",
            "`lines` joins the texts with `separator`. `json` makes a JSON array of them, in which "
            "JSON elements stay JSON.",
            choices=("lines", "json"),
        ),
        Option("separator", "text", "\n", "The text between two elements, for `lines`."),
    ),
    main="size",
    example="""\
[flow.main.nodes.batches]
component = "batch"
config = { size = 100, bytes = "64KiB", linger = "500ms", format = "json" }
""",
)


class Batcher(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "batches"

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._size: int = options["size"]
        self._limit_bytes: int = options["bytes"]
        self._is_json = options["format"] == "json"
        self._separator: str = options["separator"]
        self._linger_ns = round(options["linger"] * 1e9)
        self._items: list[Any] = []
        self._batch_bytes = 0
        self._due_ns: int | None = None
        if not self._size and not self._limit_bytes and not self._linger_ns:
            hint = "`size = 10` makes batches of ten"
            raise wrong_config(SPEC, "set `size`, `bytes` or `linger`", hint)

    def ingest(self, element: Element) -> list[Output]:
        item = self._item(element)
        size_bytes = len(element.data)
        done = []
        if self._items and 0 < self._limit_bytes < self._batch_bytes + size_bytes:
            done.append(self._close())
        if self._linger_ns and not self._items:
            self._due_ns = self.now_ns() + self._linger_ns
        self._items.append(item)
        self._batch_bytes += size_bytes
        if 0 < self._size <= len(self._items) or 0 < self._limit_bytes <= self._batch_bytes:
            done.append(self._close())
        return done

    def flush(self) -> list[Output]:
        return [self._close()] if self._items else []

    def due_ns(self) -> int | None:
        return self._due_ns

    def on_timer(self) -> list[Output]:
        return self.flush()

    def held_elements(self) -> int:
        return len(self._items)

    def snapshot(self) -> Any:
        return {"items": self._items, "bytes": self._batch_bytes}

    def restore(self, state: Any) -> None:
        self._items, self._batch_bytes = state["items"], state["bytes"]
        if self._items and self._linger_ns:
            # The time that the batch has waited already is not known after a restart.
            self._due_ns = self.now_ns() + self._linger_ns

    def _item(self, element: Element) -> Any:
        is_json = self._is_json and element.content_type.startswith(JSON_TYPE)
        return parse_json(element.text) if is_json else element.text

    def _close(self) -> Output:
        items, self._items, self._batch_bytes = self._items, [], 0
        self._due_ns = None
        if self._is_json:
            return Output(write_json(items), content_type=JSON_TYPE)
        return Output(self._separator.join(items))
