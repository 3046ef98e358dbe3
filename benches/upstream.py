"""An OpenAI-compatible upstream that costs almost nothing: prepared chunks, one per loop turn.

    python -m benches.upstream --port N --tokens N

Every request gets the same answer, cut at its `max_tokens`; without tokens it gets a head, and
waits for more. A connection that is not read is not written to.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import re
from collections.abc import Callable

from benches.event_loop import run
from benches.peers.starlette_stream import chunk
from benches.work_serving import answer

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


_MAX_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')


@functools.cache
def prepared(tokens: int, repeat: int) -> list[bytes]:
    chunks = [chunk(1, {"role": "assistant", "content": ""})]
    chunks += [chunk(1, {"content": repeat * token}) for token in answer(tokens)]
    chunks.append(chunk(1, {}, "stop"))
    events = [f"data: {json.dumps(one)}\n\n".encode() for one in chunks] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%s\r\n" % (len(event), event) for event in events] + [b"0\r\n\r\n"]


class Answers(asyncio.Protocol):
    """One connection, kept alive unless its client closes it."""

    def __init__(
        self, tokens: int, repeat: int, later: Callable[[Callable[[], None]], object]
    ) -> None:
        self._tokens = tokens
        self._repeat = repeat
        self._parts: list[bytes] = []
        self._later = later
        self._got = b""
        self._at: int | None = None
        self._may_write = True
        self._is_last = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        length = next(
            (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")),
            b"content-length:0",
        )
        if len(body) >= int(length.partition(b":")[2]):
            limit = _MAX_TOKENS.search(body)
            tokens = min(self._tokens, int(limit[1])) if limit else self._tokens
            self._parts = prepared(tokens, self._repeat)
            self._got, self._at = b"", 0
            self._is_last = b"connection: close" in head.lower()
            self._transport.write(HEAD)
            if self._tokens:
                self._later(self._say)

    def _say(self) -> None:
        if self._at is None or not self._may_write or self._transport.is_closing():
            return
        self._transport.write(self._parts[self._at])
        self._at += 1
        if self._at == len(self._parts):
            self._at = None
            if self._is_last:
                self._transport.close()
        else:
            self._later(self._say)

    def pause_writing(self) -> None:
        self._may_write = False

    def resume_writing(self) -> None:
        self._may_write = True
        self._later(self._say)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1, help="words per token")
    options = parser.parse_args()
    loop = asyncio.get_running_loop()
    make = lambda: Answers(options.tokens, options.repeat, loop.call_soon)  # noqa: E731
    server = await loop.create_server(make, "127.0.0.1", options.port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    run(main())
