"""Requests at a fixed rate, independent of the answers: how long until the first text?"""

from __future__ import annotations

import selectors
import socket
import time

from benches.load import PATIENCE_S, Question, connected


def first_texts(port: int, question: Question, a_second: float, count: int) -> list[float]:
    """Seconds from each request to its first chunk with text; `count` requests, evenly spaced."""
    asked, found = question.bytes(port), dict[int, float]()
    began_s = time.perf_counter()
    sent, open_socks = 0, 0
    with selectors.DefaultSelector() as waiting:
        while sent < count or open_socks:
            now_s = time.perf_counter() - began_s
            if now_s > PATIENCE_S:
                raise TimeoutError(f"{open_socks} answers did not end")
            if sent < count and now_s >= sent / a_second:
                sock = connected(port)
                waiting.register(sock, selectors.EVENT_READ, (sent, time.perf_counter()))
                sock.sendall(asked)
                sent, open_socks = sent + 1, open_socks + 1
                continue
            due_s = sent / a_second - now_s if sent < count else 1.0
            for key, _ in waiting.select(max(0.0, due_s)):
                if not _read(key, question.mark, found):
                    waiting.unregister(key.fileobj)
                    open_socks -= 1
    return list(found.values())


def _read(key: selectors.SelectorKey, mark: bytes, found: dict[int, float]) -> bool:
    """Whether more data may arrive."""
    sock = key.fileobj
    assert isinstance(sock, socket.socket)
    number, sent_s = key.data
    data = sock.recv(65536)
    # The first chunk with text is small and arrives in one piece.
    if number not in found and mark in data:
        found[number] = time.perf_counter() - sent_s
    if not data:
        sock.close()
    return bool(data)
