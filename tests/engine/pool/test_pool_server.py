"""A server whose engine is a pool: its routes, its metrics and `torvyn pool`."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pool_servers import Gateway, Server, member_of

from torvyn.client import Client
from torvyn.errors import TorvynError


@pytest.fixture(scope="module")
def gateway(trio: list[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    server = Gateway(tmp_path_factory.mktemp("gateway"), trio[:2])
    server.start()
    yield server
    server.kill()


def cli(gateway: Gateway, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torvyn", "pool", *words, "--server", gateway.origin]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def said(client: Client) -> str:
    with client.stream("Hi") as stream:
        return "".join(stream.text())


def test_its_answers_come_from_members_through_the_guards(gateway):
    with Client(gateway.origin) as client:
        assert member_of(said(client)) in (0, 1)


def test_the_members_are_shown_as_json(gateway, trio):
    with urllib.request.urlopen(f"{gateway.origin}/pools") as response:
        (state,) = json.load(response)["pools"].values()
    assert {member["url"] for member in state["members"]} == {each.url for each in trio[:2]}


def test_the_metrics_have_every_member(gateway, trio):
    with urllib.request.urlopen(f"{gateway.origin}/metrics") as response:
        text = response.read().decode()
    assert 'torvyn_engine_pool_members{flow="chat",state="down"} 0' in text
    for server in trio[:2]:
        name = server.url.split("/")[2]
        labels = f'{{flow="chat",member="{name}"}}'
        assert f"torvyn_engine_pool_in_flight{labels} 0" in text
        assert f"torvyn_engine_pool_first_text_seconds{labels}" in text


def test_a_member_is_replaced_and_drained_by_command(gateway, trio):
    done = cli(gateway, "replace", trio[0].url, trio[2].url, "--format", "json")
    assert done.returncode == 0, done.stderr
    done = cli(gateway, "drain", trio[1].url)
    assert "draining" in done.stdout
    with Client(gateway.origin) as client:
        assert {member_of(said(client)) for _ in range(3)} == {2}
    assert cli(gateway, "resume", trio[1].url).returncode == 0
    assert cli(gateway, "add", trio[0].url).returncode == 0
    assert cli(gateway, "remove", trio[2].url).returncode == 0
    assert "up" in cli(gateway, "status").stdout


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("drain", {"member": "gpu9"}, "has no member `gpu9`"),
        ("drain", {}, "needs the field `member`"),
        ("explode", {}, "`action` is unknown"),
        ("drain", {"flow": "none", "member": "a"}, "does not name a flow with a pool"),
        ("replace_all", {}, "fixed addresses"),
        ("drain", {"member": "a", "when": "now"}, "does not take `when`"),
    ],
)
def test_a_change_that_is_not_possible_says_why(gateway, action, fields, message):
    with Client(gateway.origin) as client, pytest.raises(TorvynError, match=message):
        client.change_pool(action, **fields)


def test_a_replacement_without_an_address_is_a_usage_error(gateway, tmp_path: Path):
    done = cli(gateway, "replace", "gpu1:8000")
    assert (done.returncode, "address of the new member" in done.stderr) == (2, True)
