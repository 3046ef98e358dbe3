"""`torvyn serve` as a person and a service manager run it."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from serve_process import MANIFEST, serving


def ask(url: str, body: dict[str, Any]) -> Any:
    return urllib.request.urlopen(url, json.dumps(body).encode(), timeout=10)


def test_a_flow_of_a_manifest_is_served_under_the_name_of_its_route(tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    messages = [{"role": "user", "content": "Hi"}]
    with serving(tmp_path) as (_, url):
        asked = {"model": "org/model-1.5", "messages": messages}
        with ask(f"{url}/v1/chat/completions", asked) as answer:
            body = json.load(answer)

    assert body["choices"][0]["message"]["content"] == "one *** two"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_server_and_its_streams_in_good_order(
    tmp_path: Path, number: int, code: int
) -> None:
    text = MANIFEST.replace("10ms", "60s")
    (tmp_path / "Torvyn.toml").write_text(text)
    with serving(tmp_path) as (process, url):
        with ask(f"{url}/v1/streams", {"prompt": "Hi"}) as answer:
            answer.readline()
            process.send_signal(number)
            rest = answer.read()
        assert process.wait(10) == code

    assert b"transport.shutting-down" in rest
    assert b'"type":"end"' in rest


def test_engines_are_served_without_a_manifest(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--engine", "scripted", "--port", "0") as (_, url),
        urllib.request.urlopen(f"{url}/v1/models", timeout=10) as answer,
    ):
        models = json.load(answer)

    assert [model["id"] for model in models["data"]] == ["scripted"]


def test_the_server_may_open_as_many_files_as_the_hard_limit_allows(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1] - 1, limits[1]))
    try:
        with serving(tmp_path, "--engine", "scripted", "--port", "0") as (process, _):
            found = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert found == (limits[1], limits[1])


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with serving(tmp_path, "--engine", "scripted", "--port", "0") as (_, url):
        port = url.rpartition(":")[2]
        command = [sys.executable, "-m", "torvyn", "serve", "--engine", "scripted", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert done.returncode == 3
    assert "error[transport.cannot-listen]" in done.stderr
