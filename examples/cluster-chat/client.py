"""Reads a stateful answer, and comes back with the last event id whenever the connection is lost.

python client.py URL [URL...]    servers, or a proxy before them
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

LOST = (OSError, http.client.HTTPException)
"""What a client sees of a server that was killed."""


def events(request: urllib.request.Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Event ids and frames, until the answer ends or the connection is lost."""
    event = ""
    with urllib.request.urlopen(request, timeout=10) as answer:
        for line in answer:
            if line.startswith(b"id: "):
                event = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                yield event, json.loads(line[6:])


def read(urls: list[str], prompt: str) -> Iterator[str]:
    """The text of an answer, piece by piece, each of them once."""
    body = json.dumps({"prompt": prompt, "stateful": True}).encode()
    request = urllib.request.Request(f"{urls[0]}/v1/streams", body)
    id = last = ""
    for url in itertools.cycle(urls[1:] + urls[:1]):
        try:
            for event, frame in events(request):
                if frame["type"] == "error" and not frame["retryable"]:
                    raise SystemExit(frame["message"])
                id, last = frame.get("id", id), event or last
                if frame["type"] == "delta":
                    yield frame["text"]
                elif frame["type"] == "end" and frame["finish"][0]["reason"] != "error":
                    return
        except LOST as error:
            if isinstance(error, urllib.error.HTTPError) or not id:
                raise
        print(" [lost, resuming] ", end="", file=sys.stderr, flush=True)
        time.sleep(0.05)
        request = urllib.request.Request(f"{url}/v1/streams/{id}", headers={"last-event-id": last})
    raise AssertionError("a cycle has no end")


if __name__ == "__main__":
    for piece in read(sys.argv[1:], "Hi"):
        print(piece, end="", flush=True)
    print()
