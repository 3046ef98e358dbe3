"""A real nginx in front of a server, with its own folder and free ports."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import missing
from live_server import PATIENCE_S

from open_port import is_open

SHIPPED = (Path(__file__).parents[3] / "deploy" / "nginx.conf").read_text()
PLAIN = "server { listen 80; location / { proxy_pass http://127.0.0.1:8080; } }"
"""What somebody writes who knows nothing of streams."""
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
needs_nginx = missing.needs(
    "nginx", is_there=NGINX is not None and shutil.which("openssl") is not None
)
_MAIN = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


@dataclass(frozen=True)
class Ports:
    plain: int
    tls: int


@contextmanager
def in_front(port: int, folder: Path, site: str = SHIPPED) -> Iterator[Ports]:
    """nginx with that site before the server at `port`. Ports and certificate are our own, all
    else is as it stands there."""
    ports = Ports(_free_port(), _free_port())
    text = _put(site, "127.0.0.1:8080", f"127.0.0.1:{port}")
    text = _put(text, "listen 80;", _listen(ports.plain))
    if " ssl" in site:
        text = _put(text, "listen 443 ssl http2;", _listen(ports.tls, " ssl http2"))
        text = _certified(text, folder)
    (folder / "site.conf").write_text(text)
    (folder / "nginx.conf").write_text(_MAIN.format(folder=folder))
    command = [NGINX or "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_open(ports.plain, process)
        yield ports
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


def _put(text: str, old: str, new: str) -> str:
    assert old in text, f"the file has no `{old}` any more"
    return text.replace(old, new)


def _listen(port: int, more: str = "") -> str:
    return f"listen 127.0.0.1:{port}{more};"


def _certified(text: str, folder: Path) -> str:
    """The site with a certificate that was made a moment ago."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "1", "-subj", "/CN=localhost", "-keyout", str(key)]
    subprocess.run([*command, "-out", str(certificate)], check=True, capture_output=True)
    text = _put(text, "/etc/ssl/private/chat.example.key", str(key))
    return _put(text, "/etc/ssl/certs/chat.example.pem", str(certificate))


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def _wait_until_open(port: int, process: subprocess.Popen[str]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise AssertionError(process.stderr.read() if process.stderr else "nginx ended")
        if is_open(port):
            return
        time.sleep(0.005)
    raise AssertionError("nginx did not open its port")
