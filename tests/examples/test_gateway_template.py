"""The project of `torvyn init --template gateway`: what it has detected survives an outage."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from torvyn._cli.templates.gateway import READINGS
from torvyn._cli.templates.project_files import files_of
from torvyn._cli.templates.project_template import TEMPLATES

PROGRAM = Path(__file__).with_name("gateway_outage.py")


class Handler(BaseHTTPRequestHandler):
    """Keeps the elements of all requests."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.received += json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def server(port: int = 0) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Gives its port and what it has received."""
    handler = type("Handler", (Handler,), {"received": []})
    with HTTPServer(("127.0.0.1", port), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        yield listening.server_port, handler.received
        listening.shutdown()
        thread.join()


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    for name, text in files_of(TEMPLATES["gateway"], "edge").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "Torvyn.toml"


def test_complaint_3_a_new_gateway_stores_and_forwards(manifest: Path) -> None:
    with server() as (port, _):
        pass
    url = f'component = "http"\nconfig = {{ url = "http://127.0.0.1:{port}/" }}'
    text = manifest.read_text().replace('component = "console"', url)
    manifest.write_text(text)
    kill_when_stored(manifest, len(READINGS))
    # The source has nothing any more: all readings have to come from the disk.
    manifest.write_text(text.replace(json.dumps(READINGS), '["21.0"]'))

    with server(port) as (_, received):
        command = [sys.executable, "-m", "torvyn", "run", "--quiet", "--manifest", str(manifest)]
        subprocess.run(command, check=True, timeout=50)

    assert [str(each["value"]) for each in received] == [*READINGS, "21.0"]


def kill_when_stored(manifest: Path, count: int) -> None:
    command = [sys.executable, str(PROGRAM), str(manifest), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stored\n"
        process.kill()
