"""The server that receives reports: the newest one of each device, as a file in a folder.

    POST /reports    one report; with a token, `Authorization: Bearer TOKEN`
    GET  /reports    all of them, as a JSON list

It is small on purpose: put it behind a reverse proxy for TLS.
"""

from __future__ import annotations

import hmac
import http.client
import json
import logging
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from torvyn._artifact.layout import read_regular, write_file
from torvyn._deploy import channel
from torvyn._deploy.failures import unreachable
from torvyn._deploy.report import MAX_BYTES, NoRedirects, Report
from torvyn.errors import TorvynError

logger = logging.getLogger("torvyn.edge")

_TIMEOUT_S: Final = 10.0
_MAX_CONNECTIONS: Final = 64
_MAX_ANSWER_BYTES: Final = 256 << 20
MAX_DEVICES: Final = 100_000


def stored_reports(folder: Path) -> Iterator[Report]:
    """The reports in a folder, by device. Files that are no reports are skipped."""
    for path in sorted(folder.glob("*.json")):
        try:
            yield Report.parse(read_regular(path, MAX_BYTES))
        except (TorvynError, ValueError) as error:
            logger.warning("%s is not a report: %s", path, error)


def fetch_reports(url: str, token: str | None) -> list[Report]:
    """The reports of a collector. Nothing it sends is trusted more than a device."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.build_opener(NoRedirects).open(request, timeout=_TIMEOUT_S) as answer:
            data = answer.read(_MAX_ANSWER_BYTES + 1)
        value = channel.parse(data, _MAX_ANSWER_BYTES)
        found = value.get("reports")
        if not isinstance(found, list):
            raise ValueError("it is not a list of reports")
        return [Report.parse(json.dumps(each).encode()) for each in found]
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise unreachable(url, error) from None


def store_report(folder: Path, report: Report) -> None:
    """Replaces the report of the device. Names are checked, so they are safe in a path."""
    path = folder / f"{report.device}+{report.deployment}.json"
    if not path.exists() and sum(1 for _ in folder.iterdir()) >= MAX_DEVICES:
        raise ValueError(f"there are reports of {MAX_DEVICES} devices already")
    write_file(path, json.dumps(report.to_dict(), sort_keys=True).encode())


class Collector(ThreadingHTTPServer):
    """`serve_forever` until `shutdown`."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], folder: Path, token: str | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder: Final = folder
        self.token: Final = token
        self._room = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, _Exchange)

    @property
    def url(self) -> str:
        host = str(self.server_address[0])
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server_port}/reports"

    def stop_soon(self) -> None:
        """Ends `serve_forever`, also from a handler of signals on the same thread."""
        threading.Thread(target=self.shutdown, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a connection of %s was cut", client_address)


class _Exchange(BaseHTTPRequestHandler):
    server: Collector
    timeout = _TIMEOUT_S
    server_version = "torvyn"
    sys_version = ""

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not self._is_allowed():
            return
        if not length.isdecimal() or int(length) > MAX_BYTES:
            self._answer(413, {"error": f"a report has at most {MAX_BYTES} bytes"})
            return
        try:
            report = Report.parse(self.rfile.read(int(length)))
            store_report(self.server.folder, report)
        except ValueError as error:
            self._answer(400, {"error": str(error)})
        else:
            self._answer(200, {"stored": report.device})

    def do_GET(self) -> None:
        if self._is_allowed():
            reports = [report.to_dict() for report in stored_reports(self.server.folder)]
            self._answer(200, {"reports": reports})

    def _is_allowed(self) -> bool:
        if self.path != "/reports":
            self._answer(404, {"error": "reports are at /reports"})
            return False
        given, token = self.headers.get("Authorization", ""), self.server.token
        if token is not None and not hmac.compare_digest(
            given.encode(), f"Bearer {token}".encode()
        ):
            self._answer(401, {"error": "the token is missing or wrong"})
            return False
        return True

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        logger.debug(format, *arguments)
