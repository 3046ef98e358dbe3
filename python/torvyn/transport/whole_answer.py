"""A whole answer in one response, in OpenAI's two dialects."""

from __future__ import annotations

from torvyn.protocol.frames import StartFrame
from torvyn.protocol.openai.response_bodies import chat_body, completion_body
from torvyn.transport.call import Call
from torvyn.transport.request_body import ignored_header
from torvyn.transport.wire import HttpWire


class WholeAnswer(Call):
    """Call `run` once. It raises errors, because no status was sent yet."""

    __slots__ = ()

    async def run(self) -> None:
        self.watch()
        # Nothing can be sent before the answer is complete that would show whether it still reads.
        self.wire.when_half_closed(self.leave)
        try:
            if self.pace is not None:
                await self.pause(self.pace.debt_s())
            completion = await self.answer.acomplete()
            if self.pace is not None:
                await self.pause(self.pace.spend(completion.usage.completion_tokens))
        finally:
            self.wire.when_half_closed(None)
            self.unwatch()
        if self.is_left:
            return
        if self.failure is not None:
            raise self.failure
        start = StartFrame(self.id, self.flow, self.created)
        make = chat_body if self.request.dialect == "openai-chat" else completion_body
        body = make(start, completion.choices, completion.usage)
        assert isinstance(self.wire, HttpWire)
        await self.wire.exchange.answer(body, headers=ignored_header(self.request.ignored))
