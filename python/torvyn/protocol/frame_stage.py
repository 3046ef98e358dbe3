"""The last stage of a flow that answers: elements in, the bytes of frames out.

Each choice of an answer has a flow of its own, and each of these flows ends in a `Frames` with the
same encoder, so that frames are numbered over all choices. `start` and `end` are the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torvyn.contract import Element, Output, Processor

if TYPE_CHECKING:
    from torvyn.protocol.encoder import Encoder


class Frames(Processor):
    """Text elements as deltas of choice `index`.

    The attributes `kind` (`reasoning`, `tool_call`), `call` (a `ToolCall`) and `logprobs` of an
    element are honoured.
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
