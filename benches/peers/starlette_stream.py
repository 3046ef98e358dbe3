"""Starlette on uvicorn, written by hand: a `StreamingResponse` over an async generator.

With uvloop and httptools, as its users install it, without access log. `/v1/chat/completions`
sends OpenAI's chunks, a dictionary each, as is common; `/v1/streams` sends the minimum
that a client can read. With `--rate`, its flow `rate` emits that many tokens per second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from benches.work_serving import MODEL, RATE_FLOW, Guard, answer


class Peer:
    def __init__(self, tokens: list[str], is_paced: bool, rate: float, rate_tokens: int) -> None:
        self.tokens = tokens
        self.is_paced = is_paced
        self.rate = rate
        self.rate_tokens = rate_tokens

    async def engine(self, flow: str) -> AsyncIterator[str]:
        if flow == RATE_FLOW:
            for _ in range(self.rate_tokens):
                await asyncio.sleep(1 / self.rate)
                yield f" {time.time_ns()}"
            return
        for token in self.tokens:
            if self.is_paced:
                await asyncio.sleep(0)
            yield token

    async def guarded(self, flow: str = MODEL) -> AsyncIterator[str]:
        guard = Guard()
        async for token in self.engine(flow):
            if text := guard.put(token):
                yield text
        if text := guard.finish():
            yield text

    async def own(self, request: Request) -> StreamingResponse:
        body = await request.json()
        return streamed(self.own_events(body.get("flow", MODEL)))

    async def own_events(self, flow: str) -> AsyncIterator[str]:
        async for text in self.guarded(flow):
            yield f"data: {json.dumps({'type': 'delta', 'text': text})}\n\n"
        yield 'data: {"type": "end"}\n\n'

    async def chat(self, request: Request) -> StreamingResponse:
        await request.json()
        return streamed(self.chat_events())

    async def chat_events(self) -> AsyncIterator[str]:
        created = int(time.time())
        async for text in self.guarded():
            yield f"data: {json.dumps(chunk(created, {'content': text}))}\n\n"
        yield f"data: {json.dumps(chunk(created, {}, 'stop'))}\n\n"
        yield "data: [DONE]\n\n"


async def healthy(request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


def chunk(created: int, delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": created,
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def streamed(events: AsyncIterator[str]) -> StreamingResponse:
    headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--ready", action="store_true", help="tokens are not waited for")
    parser.add_argument("--rate", type=float, default=0.0, help="also a flow of that rate")
    parser.add_argument("--rate-tokens", type=int, default=0)
    options = parser.parse_args()
    peer = Peer(answer(options.tokens), not options.ready, options.rate, options.rate_tokens)
    routes = [
        Route("/healthz", healthy),
        Route("/v1/chat/completions", peer.chat, methods=["POST"]),
        Route("/v1/streams", peer.own, methods=["POST"]),
    ]
    uvicorn.run(
        Starlette(routes=routes),
        port=options.port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
