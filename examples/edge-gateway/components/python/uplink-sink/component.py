"""Sends every window to a collector as an HTTP request, on a connection that it keeps.

A window is accepted when the collector answered 2xx. If the collector is away or overloaded, the
call fails as unavailable, and the node's `on_error` retries it. The header `Idempotency-Key` lets
the collector recognise a window that it already has: the answer may get lost.
"""

import http.client
import json
from urllib.parse import urlsplit

import torvyn

TIMEOUT_S = 2.0


class UplinkSink(torvyn.Sink):
    unit = "windows"

    def init(self, config: str) -> None:
        url = urlsplit(config)
        if url.scheme != "http" or not url.hostname:
            raise torvyn.Fatal("the config must be a URL that starts with http://")
        self.path = url.path or "/"
        self.connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)

    def push(self, element: torvyn.Element) -> None:
        is_kept = self.connection.sock is not None
        try:
            status = self.post(element.text)
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            if not is_kept:
                raise torvyn.Unavailable("the collector cannot be reached") from error
            # The collector may have closed a kept connection in the meantime.
            return self.push(element)
        if status >= 500 or status in (408, 429):
            raise torvyn.Unavailable("the collector is overloaded or failed")
        if status >= 300:
            raise torvyn.InvalidInput("the collector rejected the window")
        return None

    def post(self, window: str) -> int:
        fields = json.loads(window)
        key = f"{fields['device']}-{fields['first']}-{fields['last']}"
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        self.connection.request("POST", self.path, window.encode(), headers)
        response = self.connection.getresponse()
        response.read()
        return response.status

    def teardown(self) -> None:
        self.connection.close()
