"""Elements as the body of a request, and the key by which a server knows a repeated one. Pure."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from torvyn._contract.element import Element
from torvyn.components.identity import ORIGIN_SHIFT
from torvyn.components.json_fields import parse_json
from torvyn.errors import InvalidInput

CONTENT_TYPES: Final = {"json-array": "application/json", "ndjson": "application/x-ndjson"}
"""By format. `raw` sends the content type of the element."""
_OUTER_BYTES: Final = {"json-array": len(b"[]"), "ndjson": len(b"\n"), "raw": 0}
"""What a body has around its payloads, besides a byte between each two."""


class Body(NamedTuple):
    """The body of one request."""

    data: bytes
    content_type: str
    key: str
    element_count: int


class BodyEncoder:
    def __init__(self, format: str, device: str, *, gzip: bool, max_count: int, max_bytes: int):
        self._format = format
        self._device = device
        self._gzip = gzip
        self._max_count = 1 if format == "raw" else max_count
        self._max_bytes = max_bytes

    def parts(self, payloads: Sequence[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
        """The payloads, with their positions, as they are sent together: one body, or several if
        they exceed the limits. A payload that is larger than the limit is sent alone."""
        parts: list[list[tuple[int, bytes]]] = []
        size = 0
        for at, payload in payloads:
            is_full = bool(parts) and (
                len(parts[-1]) >= self._max_count or size + len(payload) > self._max_bytes
            )
            if is_full or not parts:
                parts.append([])
                size = _OUTER_BYTES[self._format]
            parts[-1].append((at, payload))
            size += len(payload) + 1
        return parts

    def payload(self, element: Element) -> bytes:
        """Raises `InvalidInput` for what would spoil the whole request."""
        if self._format == "json-array":
            # Unchecked, `1},{"x":2` would be two items, and one bad item would spoil the array.
            parse_json(element.text)
        elif self._format == "raw" and not _is_header_value(element.content_type):
            raise InvalidInput(f"its content type {element.content_type!r} cannot be a header")
        payload = bytes(element.data)
        # JSON has line ends only between its tokens.
        is_split = self._format == "ndjson" and b"\n" in payload
        return payload.replace(b"\n", b" ") if is_split else payload

    def body(self, elements: Sequence[Element], payloads: Sequence[bytes]) -> Body:
        """One request."""
        if self._format == "json-array":
            data = b"[" + b",".join(payloads) + b"]"
        elif self._format == "ndjson":
            data = b"\n".join(payloads) + b"\n"
        else:
            data = payloads[0]
        kind = CONTENT_TYPES.get(self._format) or elements[0].content_type
        key = self._key(elements, data)
        if self._gzip:
            data = zlib.compress(data, 6, wbits=31)
        return Body(data, kind, key, len(payloads))

    def _key(self, elements: Sequence[Element], data: bytes) -> str:
        """`device-epoch-first-last`. The epoch is that of the log in front of the sink, which has
        numbered the elements; without one, every run is an epoch of its own. With elements of
        several edges, `first-last` of each: after a crash they may come in another order."""
        context = elements[0].context
        if context is None:
            return hashlib.sha256(data).hexdigest()[:32]
        ranges: dict[int, tuple[int, int]] = {}
        for number in (element.sequence for element in elements):
            first, _ = ranges.setdefault(number >> ORIGIN_SHIFT, (number, number))
            ranges[number >> ORIGIN_SHIFT] = (first, number)
        numbers = "-".join(f"{first}-{last}" for _, (first, last) in sorted(ranges.items()))
        return f"{self._device}-{context.epoch or context.flow_id}-{numbers}"


def _is_header_value(text: str) -> bool:
    return text.isascii() and text.isprintable()
