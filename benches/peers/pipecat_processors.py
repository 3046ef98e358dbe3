"""The four Pipecat processors. Importing this file imports Pipecat; only `pipecat_peer` does."""

# The peer may be missing or untyped; mypy must give the same result in both cases.
# mypy: disable-error-code="import-not-found,import-untyped,misc,no-untyped-call"
# mypy: no-warn-unused-ignores

from __future__ import annotations

from typing import Any

from pipecat.frames.frames import EndFrame, StartFrame, TextFrame
from pipecat.processors.frame_processor import FrameProcessor

from benches.work import BLOCKED_WORDS, STOPS


class Source(FrameProcessor):
    def __init__(self, tokens: list[str], **options: Any) -> None:
        super().__init__(**options)
        self.tokens = tokens

    async def process_frame(self, frame: Any, direction: Any) -> None:
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        if isinstance(frame, StartFrame):
            self.create_task(self.produce())

    async def produce(self) -> None:
        for token in self.tokens:
            await self.push_frame(TextFrame(token))
        await self.pipeline_worker.stop_when_done()


class Filter(FrameProcessor):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filtered = 0

    async def process_frame(self, frame: Any, direction: Any) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TextFrame) and frame.text.strip().lower() in BLOCKED_WORDS:
            self.filtered += 1
            return
        await self.push_frame(frame, direction)


class Aggregator(FrameProcessor):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.buffer: list[str] = []

    async def process_frame(self, frame: Any, direction: Any) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TextFrame):
            self.buffer.append(frame.text)
            if frame.text.rstrip().endswith(STOPS):
                await self.emit()
            return
        if isinstance(frame, EndFrame):
            await self.emit()
        await self.push_frame(frame, direction)

    async def emit(self) -> None:
        text = "".join(self.buffer).strip()
        self.buffer.clear()
        if text:
            await self.push_frame(TextFrame(text))


class Sink(FrameProcessor):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.texts: list[str] = []

    async def process_frame(self, frame: Any, direction: Any) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TextFrame):
            self.texts.append(frame.text)
        else:
            await self.push_frame(frame, direction)
