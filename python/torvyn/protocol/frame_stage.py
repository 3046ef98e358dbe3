"""`Frames`: the last stage of a flow that answers requests; it encodes elements as frames.

Each choice has its own flow, and all of these flows share one encoder, which numbers the frames of
all choices. The server sends the start and end frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Processor

if TYPE_CHECKING:
    from torvyn.protocol.encoder import Encoder


class Frames(Processor):
    """Encodes text elements as deltas of choice `index`.

    It reads the attributes `kind` (`reasoning`, `tool_call`), `call` (a `ToolCall`) and `logprobs`.
    """

    unit = "frames"

    def __init__(self, encoder: Encoder, index: int = 0) -> None:
        super().__init__()
        self.encoder = encoder
        self.index = index

    def process(self, element: Element) -> Output | None:
        frame = frame_of(self.encoder, self.index, element.text, element.attributes)
        return Output(frame) if frame else None

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        if type(self) is not Frames:
            return None
        return "frames", {"encoder": self.encoder, "index": self.index}


def frame_of(encoder: Encoder, index: int, text: str, attributes: Mapping[str, Any]) -> bytes:
    """The frame of an element with attributes."""
    kind = attributes.get("kind", "text")
    return encoder.delta(index, kind, text, attributes.get("call"), attributes.get("logprobs"))
