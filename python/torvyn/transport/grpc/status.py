"""Rejections -> the status of a gRPC call, with details that programs can read.

Besides code and message, a status has `google.rpc.ErrorInfo` (the error code and the hint) and, if
a retry may help, `google.rpc.RetryInfo`. The trailing metadata repeats them for simple clients.
"""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from torvyn.errors import TorvynError
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.transport.rejection import Rejection, is_retryable, status_of

DOMAIN: Final = "torvyn"
_MAX_CHARACTERS: Final = 1000
"""Of a message: clients reject HTTP/2 headers that are too large."""
_CODES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ALREADY_EXISTS,
    410: grpc.StatusCode.FAILED_PRECONDITION,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    421: grpc.StatusCode.PERMISSION_DENIED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class GrpcStatus:
    """The arguments of `context.abort`."""

    __slots__ = ("code", "message", "trailers")

    def __init__(self, error: TorvynError, message: str, request_id: str) -> None:
        self.code = _CODES.get(status_of(error), grpc.StatusCode.INTERNAL)
        self.message = encodable(message)[:_MAX_CHARACTERS]
        retry_s = _retry_s(error)
        self.trailers: tuple[tuple[str, str | bytes], ...] = (
            ("x-request-id", request_id),
            ("torvyn-code", error.code),
            ("grpc-status-details-bin", self._details(error, retry_s)),
        )
        if retry_s is not None:
            self.trailers += (("retry-after", str(retry_s)),)

    def _details(self, error: TorvynError, retry_s: int | None) -> bytes:
        hint = {"hint": encodable(error.hint)[:_MAX_CHARACTERS]} if error.hint else {}
        info = error_details_pb2.ErrorInfo(reason=error.code, domain=DOMAIN, metadata=hint)
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        status.details.add().Pack(info)
        if retry_s is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromSeconds(retry_s)
            status.details.add().Pack(retry)
        packed: bytes = status.SerializeToString()
        return packed


def _retry_s(error: TorvynError) -> int | None:
    """After how many seconds a retry may help."""
    retry_after: Any = error.headers.get("retry-after") if isinstance(error, Rejection) else None
    if retry_after is not None:
        return int(retry_after)
    return 1 if is_retryable(error) else None
