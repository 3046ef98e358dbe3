"""Rejections -> the status of a gRPC call, with details that programs can read.

Besides code and message, a status has `google.rpc.ErrorInfo` (the error code and the hint) and, if
a retry may help, `google.rpc.RetryInfo`. The trailing metadata repeats them for simple clients.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Final

from torvyn.errors import TorvynError
from torvyn.protocol.openai.surrogate_pairs import encodable
from torvyn.transport.rejection import headers_of, is_retryable, row_of
from torvyn.transport.status_table import Code

DOMAIN: Final = "torvyn"
_MAX_CHARACTERS: Final = 1000
"""Of a message: clients reject HTTP/2 headers that are too large."""


_BY_NAME: Final = {"transport.body-malformed": Code.INTERNAL}
"""gRPC calls this an error of the libraries on both sides, not of the request."""
_NOT_TRAILERS: Final = ("connection", "retry-after")
"""HTTP/2 has no header for a connection; how long to wait is said for gRPC."""


class GrpcStatus:
    """What the trailers of a call say."""

    __slots__ = ("code", "message", "metadata")

    def __init__(self, error: TorvynError, message: str) -> None:
        self.code = _BY_NAME.get(error.code, row_of(error).code)
        self.message = encodable(message)[:_MAX_CHARACTERS]
        retry_s = _retry_s(error)
        self.metadata = [
            ("torvyn-code", error.code),
            ("grpc-status-details-bin", self._details(error, retry_s)),
        ]
        if retry_s is not None:
            self.metadata.append(("retry-after", str(retry_s)))
        headers = headers_of(error)
        self.metadata += [(name, headers[name]) for name in headers if name not in _NOT_TRAILERS]

    def _details(self, error: TorvynError, retry_s: int | None) -> str:
        from google.rpc import error_details_pb2, status_pb2

        about = {"hint": encodable(error.hint)[:_MAX_CHARACTERS]} if error.hint else {}
        if error.reply is not None and error.reply.code:
            about["upstream_code"] = error.reply.code
        info = error_details_pb2.ErrorInfo(reason=error.code, domain=DOMAIN, metadata=about)
        status = status_pb2.Status(code=self.code, message=self.message)
        status.details.add().Pack(info)
        if retry_s is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromSeconds(retry_s)
            status.details.add().Pack(retry)
        return b64encode(status.SerializeToString()).decode().rstrip("=")


def _retry_s(error: TorvynError) -> int | None:
    """After how many seconds a retry may help."""
    if not is_retryable(error):
        return None
    if (retry_after := headers_of(error).get("retry-after")) is not None:
        return int(retry_after)
    return 1
