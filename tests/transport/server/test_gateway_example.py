"""`examples/gateway`: three real processes."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from serve_process import serving

from torvyn.transport.access.key_file import edit

EXAMPLE = Path(__file__).parents[3] / "examples" / "gateway"
MESSAGES: Any = [{"role": "user", "content": "Who can help me?"}]


@contextmanager
def gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay: str = "2ms"
) -> Iterator[tuple[Any, str, str]]:
    """The upstream's process, the address of the gateway in front of it, and a key."""
    folder = tmp_path / "gateway"
    shutil.copytree(EXAMPLE, folder)
    with edit(folder / "keys.json") as file:
        key = file.add("web")
    behind = folder / "upstream" / "Torvyn.toml"
    behind.write_text(behind.read_text().replace('"20ms"', f'"{delay}"'))
    with serving(behind.parent, "--port", "0") as (upstream, upstream_url):
        monkeypatch.setenv("UPSTREAM_URL", f"{upstream_url}/v1")
        with serving(folder, "--port", "0") as (_, url):
            yield upstream, url, key


def ask(url: str, key: str) -> Any:
    body = json.dumps({"flow": "support", "prompt": "Hi"}).encode()
    headers = {"Authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{url}/v1/streams", body, headers)
    return urllib.request.urlopen(asked, timeout=10)


def frames(answer: Any) -> Iterator[Any]:
    for line in answer:
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def test_guards_stand_between_the_upstream_and_every_kind_of_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway(tmp_path, monkeypatch) as (_, url, key):
        with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
            asked = {"model": "support", "messages": MESSAGES}
            chunks = list(client.chat.completions.create(**asked, stream=True))
        with ask(url, key) as answer:
            raw = answer.read()

    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == "You can write to [email]. The next release is called "
    assert chunks[-1].choices[0].finish_reason == "content_filter"
    assert b"[email]" in raw
    for kept in (b"jo@", b"luebird", b"keys"):
        assert kept not in raw


def test_an_upstream_that_dies_in_the_middle_is_an_error_and_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        gateway(tmp_path, monkeypatch, delay="300ms") as (upstream, url, key),
        ask(url, key) as answer,
    ):
        got = frames(answer)
        begun = [next(got), next(got)]
        upstream.kill()
        rest = [frame for frame in got if frame["type"] != "delta"]

    assert [frame["type"] for frame in begun] == ["start", "delta"]
    assert [frame["type"] for frame in rest] == ["error", "end"]
    assert rest[0]["code"] == "engine.upstream-cut"
    assert rest[1]["finish"] == [{"index": 0, "reason": "error"}]


def test_an_unreachable_upstream_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gateway(tmp_path, monkeypatch) as (upstream, url, key):
        upstream.kill()
        upstream.wait(10)
        with (
            openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
            pytest.raises(openai.InternalServerError, match="cannot be reached") as caught,
        ):
            client.chat.completions.create(model="support", messages=MESSAGES)

    assert (caught.value.status_code, caught.value.code) == (502, "engine.upstream-down")
