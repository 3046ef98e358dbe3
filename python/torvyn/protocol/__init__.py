"""Frames of a streamed answer and the dialects in which they travel. No I/O.

frames         the frames
encoder        frames to bytes: three dialects, three framings
decoder        bytes to frames
frame_stage    the last stage of a flow: elements to frames
proto_encoder  frames to gRPC messages
proto_decoder  gRPC messages to frames
completion     a whole answer
openai         OpenAI's dialect
timing         when the text of an answer was delivered
traceparent    the W3C trace header
failures       typed errors

Importing this package does not load the native module; the first use of a name that needs it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torvyn._lazy import attach
from torvyn.protocol.frames import (
    FINISH_REASONS,
    KINDS,
    VERSION,
    DeltaFrame,
    EndFrame,
    ErrorFrame,
    FilterSide,
    Finish,
    FinishReason,
    Frame,
    HeartbeatFrame,
    Kind,
    MetaFrame,
    StartFrame,
    ToolCall,
    Usage,
)

if TYPE_CHECKING:
    from torvyn._native import EventParser, PartialJson, ServerEvent
    from torvyn.protocol.decoder import Decoder
    from torvyn.protocol.encoder import Encoder
    from torvyn.protocol.frame_stage import Frames
    from torvyn.protocol.openai.chunk_decoder import DONE, ChunkDecoder

__all__ = [
    "DONE",
    "FINISH_REASONS",
    "KINDS",
    "VERSION",
    "ChunkDecoder",
    "Decoder",
    "DeltaFrame",
    "Encoder",
    "EndFrame",
    "ErrorFrame",
    "EventParser",
    "FilterSide",
    "Finish",
    "FinishReason",
    "Frame",
    "Frames",
    "HeartbeatFrame",
    "Kind",
    "MetaFrame",
    "PartialJson",
    "ServerEvent",
    "StartFrame",
    "ToolCall",
    "Usage",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "DONE": "torvyn.protocol.openai.chunk_decoder",
            "ChunkDecoder": "torvyn.protocol.openai.chunk_decoder",
            "Decoder": "torvyn.protocol.decoder",
            "Encoder": "torvyn.protocol.encoder",
            "EventParser": "torvyn._native",
            "Frames": "torvyn.protocol.frame_stage",
            "PartialJson": "torvyn._native",
            "ServerEvent": "torvyn._native",
        },
    )
