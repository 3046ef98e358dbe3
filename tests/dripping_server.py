"""A server that sends the beginning of its answer at once, and then a byte from time to time."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from typing import Final

_EVERY_S: Final = 0.02


@contextlib.contextmanager
def dripping(answer: bytes, *, at_once: int) -> Iterator[str]:
    """The server's `host:port`; it answers whatever is asked."""
    is_over = threading.Event()

    class Exchange(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                if self.request.recv(65536)[:1] == b"\x16":
                    return  # a handshake of TLS
                self.request.sendall(answer[:at_once])
                for at in range(at_once, len(answer)):
                    if is_over.wait(_EVERY_S):
                        return
                    self.request.sendall(answer[at : at + 1])

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Exchange) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            is_over.set()
            server.shutdown()
            thread.join()
