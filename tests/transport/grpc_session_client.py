"""A client of the gRPC call `Session`, which carries many streams."""

from __future__ import annotations

import queue
from typing import Any

from grpc_client import pb


class Talk:
    """One call of `Session`. `say` sends; what comes is read by who asks for it."""

    def __init__(self, stub: Any, **options: Any) -> None:
        self._said: queue.Queue[Any] = queue.Queue()
        self.call = stub.Session(iter(self._said.get, None), **{"timeout": 30, **options})

    def say(self, stream_id: str = "", **message: Any) -> None:
        self._said.put(pb.ClientMessage(stream_id=stream_id, **message))

    def start(self, stream_id: str, credit: int | None = None, **fields: Any) -> None:
        request = pb.GenerateRequest(**{"prompt": "Hi", **fields})
        self.say(stream_id, start=pb.Begin(request=request, credit=credit))

    def hang_up(self) -> None:
        self._said.put(None)

    def next(self) -> Any:
        return next(self.call)

    def until_end(self, *names: str) -> dict[str, list[Any]]:
        """The frames of each of these streams, all of them."""
        got: dict[str, list[Any]] = {name: [] for name in names}
        waiting = set(names)
        while waiting:
            message = self.next()
            if message.WhichOneof("message") == "frame" and message.stream_id in got:
                got[message.stream_id].append(message.frame)
                if message.frame.HasField("end"):
                    waiting.discard(message.stream_id)
        return got


def text(frames: list[Any]) -> str:
    return "".join(frame.delta.text for frame in frames)
