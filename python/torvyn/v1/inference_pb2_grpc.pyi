"""The types that protoc leaves out of `inference_pb2_grpc.py`, written by hand.

Whether a call is iterated with `for` or `async for` is up to its channel, so its result is `Any`.
"""

from collections.abc import AsyncIterable, Iterable
from typing import Any

from torvyn.v1.inference_pb2 import ClientMessage, GenerateRequest

class InferenceStub:
    def __init__(self, channel: Any) -> None: ...
    def Generate(self, request: GenerateRequest, **options: Any) -> Any: ...
    def Session(
        self,
        request_iterator: Iterable[ClientMessage] | AsyncIterable[ClientMessage] | None = None,
        **options: Any,
    ) -> Any: ...

class InferenceServicer:
    def Generate(self, request: GenerateRequest, context: Any) -> Any: ...
    def Session(self, request_iterator: Any, context: Any) -> Any: ...

def add_InferenceServicer_to_server(servicer: InferenceServicer, server: Any) -> None: ...
