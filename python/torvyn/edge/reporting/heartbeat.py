"""Posts reports while a deployment runs. A server that is away is no problem: the next report
says the same, so none is stored."""

from __future__ import annotations

import http.client
import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final

from torvyn.components.restart import keep_running
from torvyn.edge.reporting.report import Report

logger = logging.getLogger("torvyn.edge")

_TIMEOUT_S: Final = 10.0


class Heartbeat:
    """A context manager: reports while the block runs, and once at its end."""

    def __init__(
        self,
        url: str,
        report: Callable[[], Report],
        *,
        interval_s: float = 60.0,
        token: str | None = None,
    ) -> None:
        self._url: Final = url
        self._report: Final = report
        self._interval_s: Final = interval_s
        self._token: Final = token
        self._has_failed = False
        self._due = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="torvyn-heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        self._due.set()
        self._thread.join(_TIMEOUT_S)

    def soon(self) -> None:
        """Something has changed: report now."""
        self._due.set()

    def _run(self) -> None:
        keep_running(self._send_all, self._wait)

    def _send_all(self) -> None:
        while not self._is_stopped:
            self._due.clear()
            self.send()
            self._due.wait(self._interval_s)
        self.send()

    def _wait(self, seconds: float) -> bool:
        self._due.wait(seconds)
        return self._is_stopped

    def send(self) -> bool:
        """Whether the server took the report."""
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            body = json.dumps(self._report().to_dict()).encode()
            request = urllib.request.Request(self._url, body, headers, method="POST")
            with urllib.request.build_opener(NoRedirects).open(request, timeout=_TIMEOUT_S):
                self._has_failed = False
                return True
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._has_failed:
                logger.warning("the report was not taken by %s: %s", self._url, error)
            self._has_failed = True
            return False


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the token to another host."""

    def redirect_request(self, *arguments: object, **options: object) -> None:
        return None
