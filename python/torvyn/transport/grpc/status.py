"""Rejections -> the status of a gRPC call, with details that programs can read.

Besides code and message, a status has `google.rpc.ErrorInfo` (the error code and the hint) and, if
a retry may help, `google.rpc.RetryInfo`. The trailing metadata repeats them for simple clients.
"""

from __future__ import annotations

from base64 import b64encode
from enum import IntEnum
from typing import Any, Final

from torvyn.errors import TorvynError
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.transport.rejection import Rejection, is_retryable, status_of

DOMAIN: Final = "torvyn"
_MAX_CHARACTERS: Final = 1000
"""Of a message: clients reject HTTP/2 headers that are too large."""


class Code(IntEnum):
    """Those that this server uses."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


_CODES: Final = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    409: Code.ALREADY_EXISTS,
    410: Code.FAILED_PRECONDITION,
    413: Code.RESOURCE_EXHAUSTED,
    421: Code.PERMISSION_DENIED,
    429: Code.RESOURCE_EXHAUSTED,
    501: Code.UNIMPLEMENTED,
    502: Code.UNAVAILABLE,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
_BY_NAME: Final = {"transport.body-malformed": Code.INTERNAL}
"""gRPC calls this an error of the libraries on both sides, not of the request."""


class GrpcStatus:
    """What the trailers of a call say."""

    __slots__ = ("code", "message", "metadata")

    def __init__(self, error: TorvynError, message: str) -> None:
        code = _CODES.get(status_of(error), Code.INTERNAL)
        self.code = _BY_NAME.get(error.code, code)
        self.message = encodable(message)[:_MAX_CHARACTERS]
        retry_s = _retry_s(error)
        self.metadata = [
            ("torvyn-code", error.code),
            ("grpc-status-details-bin", self._details(error, retry_s)),
        ]
        if retry_s is not None:
            self.metadata.append(("retry-after", str(retry_s)))

    def _details(self, error: TorvynError, retry_s: int | None) -> str:
        from google.rpc import error_details_pb2, status_pb2

        hint = {"hint": encodable(error.hint)[:_MAX_CHARACTERS]} if error.hint else {}
        info = error_details_pb2.ErrorInfo(reason=error.code, domain=DOMAIN, metadata=hint)
        status = status_pb2.Status(code=self.code, message=self.message)
        status.details.add().Pack(info)
        if retry_s is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromSeconds(retry_s)
            status.details.add().Pack(retry)
        return b64encode(status.SerializeToString()).decode().rstrip("=")


def _retry_s(error: TorvynError) -> int | None:
    """After how many seconds a retry may help."""
    retry_after: Any = error.headers.get("retry-after") if isinstance(error, Rejection) else None
    if retry_after is not None:
        return int(retry_after)
    return 1 if is_retryable(error) else None
