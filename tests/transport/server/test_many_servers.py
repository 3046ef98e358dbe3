"""Several servers behind a round-robin proxy, and several workers, serve stateful streams."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from nginx import in_front, needs_nginx
from serve_process import MANIFEST, serving

TEXT = " ".join(f"word-{number}" for number in range(60))
SITE = """
upstream servers {{ server 127.0.0.1:8080; server 127.0.0.1:{other}; }}
server {{
    listen 80;
    location / {{
        proxy_pass http://servers;
        proxy_http_version 1.1;
        proxy_set_header Host $host;
        proxy_buffering off;
        proxy_next_upstream error timeout non_idempotent;
    }}
}}
"""


def project(folder: Path) -> None:
    manifest = MANIFEST.replace("one secret two", TEXT).replace("shutdown_grace", "max_streams")
    (folder / "Torvyn.toml").write_text(manifest.replace('"400ms"', "64"))


def read(url: str, deltas: dict[int, str], after: str | None, most: int) -> tuple[str, str, bool]:
    """Reads so many deltas of a stream, from a new connection; its id, the last event id, and
    whether it has ended."""
    id, last, event, is_over = "", after or "", "", False
    with urllib.request.urlopen(_request(url, after), timeout=10) as answer:
        for line in answer:
            if line.startswith(b"id: "):
                event = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                frame = json.loads(line[6:])
                id = frame.get("id", id)
                is_over = frame["type"] == "end"
                last = event
                if frame["type"] == "delta":
                    assert frame["seq"] not in deltas, "sent twice"
                    deltas[frame["seq"]] = frame["text"]
                    most -= 1
            if is_over or not most:
                break
    return id, last, is_over


def _request(url: str, after: str | None) -> Any:
    if after is None:
        body = json.dumps({"prompt": "Hi", "stateful": True}).encode()
        return urllib.request.Request(url, body)
    return urllib.request.Request(url, headers={"last-event-id": after})


def read_in_parts(url: str, part: int = 7) -> str:
    """A stream, read by a client that reconnects again and again."""
    deltas: dict[int, str] = {}
    id, last, is_over = read(f"{url}/v1/streams", deltas, None, part)
    while not is_over:
        _, last, is_over = read(f"{url}/v1/streams/{id}", deltas, last, part)
    assert sorted(deltas) == list(range(1, len(deltas) + 1)), "frames are missing"
    return "".join(deltas[number] for number in sorted(deltas))


@needs_nginx
def test_a_client_resumes_behind_a_round_robin_proxy(tmp_path: Path, shared: str) -> None:
    project(tmp_path)
    store = ("--session-store", shared)
    with serving(tmp_path, *store) as (_, one), serving(tmp_path, *store) as (_, other):
        port, site = int(one.rpartition(":")[2]), SITE.format(other=other.rpartition(":")[2])
        folder = tmp_path / "nginx"
        folder.mkdir()
        with in_front(port, folder, site) as ports:
            assert read_in_parts(f"http://127.0.0.1:{ports.plain}") == TEXT


@needs_nginx
def test_a_client_resumes_behind_a_proxy_when_a_server_is_killed(
    tmp_path: Path, shared: str
) -> None:
    project(tmp_path)
    store = ("--session-store", shared)
    with serving(tmp_path, *store) as (first, one), serving(tmp_path, *store) as (_, other):
        deltas: dict[int, str] = {}
        id, last, _ = read(f"{one}/v1/streams", deltas, None, 5)
        first.kill()
        port, site = int(one.rpartition(":")[2]), SITE.format(other=other.rpartition(":")[2])
        folder = tmp_path / "nginx"
        folder.mkdir()
        with in_front(port, folder, site) as ports:
            url = f"http://127.0.0.1:{ports.plain}/v1/streams/{id}"
            assert read(url, deltas, last, 1000)[2]
    assert "".join(deltas[number] for number in sorted(deltas)) == TEXT


def test_several_workers_serve_stateful_streams(tmp_path: Path, shared: str) -> None:
    project(tmp_path)
    with serving(tmp_path, "--workers", "3", "--session-store", shared) as (process, url):
        try:
            assert read_in_parts(url) == TEXT
        finally:
            process.terminate()
            process.wait(20)
