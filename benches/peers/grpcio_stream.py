"""gRPC's own server for Python, on an event loop, written by hand: one `write` per token.

The messages are those of `torvyn.v1`, serialized once; the guard is that of the other peers. It
runs on asyncio's own loop, as its documentation shows: gRPC polls its sockets on its own threads.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import grpc

from benches.grpc_load import GENERATE
from benches.work_serving import Guard, answer
from torvyn.v1 import inference_pb2 as pb


class Peer:
    def __init__(self, tokens: list[str], is_guarded: bool) -> None:
        self._tokens = tokens
        self._is_guarded = is_guarded

    async def generate(self, data: bytes, context: Any) -> None:
        pb.GenerateRequest.FromString(data)
        await context.write(pb.Frame(start=pb.Start(id="a", flow="chat")).SerializeToString())
        guard = Guard() if self._is_guarded else None
        number = 0
        for token in self._tokens:
            await asyncio.sleep(0)
            if text := token if guard is None else guard.put(token):
                number += 1
                await context.write(message(number, text))
        if guard is not None and (text := guard.finish()):
            await context.write(message(number + 1, text))
        await context.write(pb.Frame(seq=number + 2, end=pb.End()).SerializeToString())


def message(number: int, text: str) -> bytes:
    data: bytes = pb.Frame(seq=number, delta=pb.Delta(text=text)).SerializeToString()
    return data


async def serve(port: int, peer: Peer) -> None:
    server = grpc.aio.server()
    _, service, method = GENERATE.split("/")
    handlers = {method: grpc.unary_stream_rpc_method_handler(peer.generate)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--bare", action="store_true", help="without the guard")
    options = parser.parse_args()
    asyncio.run(serve(options.port, Peer(answer(options.tokens), not options.bare)))


if __name__ == "__main__":
    main()
