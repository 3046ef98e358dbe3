"""Granian and nothing else: an ASGI application that sends prepared chunks, one per loop turn.

The minimum cost of a chunk on this server: no engine, no guard, no encoding.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from granian.server.embed import Server

from benches.peers.starlette_stream import chunk
from benches.work_serving import answer


def events(tokens: list[str], path: str) -> list[bytes]:
    if path == "/v1/streams":
        said = [{"type": "delta", "text": token} for token in tokens]
    else:
        said = [chunk(1, {"content": token}) for token in tokens]
    return [f"data: {json.dumps(one)}\n\n".encode() for one in said]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int)
    options = parser.parse_args()
    paths = ("/v1/streams", "/v1/chat/completions")
    prepared = {path: events(answer(options.tokens), path) for path in paths}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for data in prepared[scope["path"]]:
            await asyncio.sleep(0)
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

    server = Server(
        application, port=options.port, interface="asginl", websockets=False, log_enabled=False
    )
    asyncio.run(server.serve())


if __name__ == "__main__":
    main()
