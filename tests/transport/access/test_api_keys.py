"""API keys: who may send requests, who owns what, and what happens to revoked keys."""

from __future__ import annotations

import json
import os

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving, within

from torvyn.engine import Scripted
from torvyn.errors import MissingError, UsageError
from torvyn.transport.access import key_file
from torvyn.transport.access.host_check import check_bound
from torvyn.transport.access.keyring import Keyring
from torvyn.transport.rejection import Rejection

CHAT = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    "form", ["authorization: Bearer {}", "Authorization: bearer  {}", "x-api-key: {}"]
)
async def test_a_key_is_shown_in_either_header(keyed, form: str) -> None:
    name, value = form.format(keyed.keys["first"]).split(": ", 1)

    client = await Client(keyed.serve(Scripted("a b")), body=PROMPT_BODY, headers={name: value})

    assert client.status == 200


async def test_a_page_shows_its_key_as_a_subprotocol_beside_others(keyed) -> None:
    application = keyed.serve(Scripted("a"))
    offered = f"torvyn.v1, torvyn.key.{keyed.keys['first']}"

    assert application.authenticator.identify({"sec-websocket-protocol": offered}).name == "first"
    with pytest.raises(Rejection):
        application.authenticator.identify({"sec-websocket-protocol": "torvyn.v1"})


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "transport.key-missing"),
        ({"authorization": "Bearer "}, "transport.key-missing"),
        ({"authorization": "Basic abc"}, "transport.key-missing"),
        ({"authorization": "Bearer tvk_x"}, "transport.key-wrong"),
        ({"x-api-key": "\xff" * 9000}, "transport.key-wrong"),
    ],
)
async def test_a_missing_or_wrong_key_is_reported(keyed, headers, code: str) -> None:
    client = await Client(keyed.serve(Scripted("a")), body=PROMPT_BODY, headers=headers)

    assert (client.status, client.json["error"]["code"]) == (401, code)
    assert client.headers["www-authenticate"] == "Bearer"


async def test_openais_routes_refuse_in_openais_shape(keyed) -> None:
    client = await Client(keyed.serve(Scripted("a")), "/v1/chat/completions", CHAT)

    error = client.json["error"]
    assert (client.status, error["type"]) == (401, "authentication_error")
    assert error["code"] == "transport.key-missing"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_how_the_server_is_needs_no_key(keyed, path: str) -> None:
    client = await Client(keyed.serve(Scripted("a")), path, method="GET")

    assert client.status == 200


async def test_without_a_key_file_no_key_is_required() -> None:
    client = await Client(serving(Scripted("a")), body=PROMPT_BODY)

    assert client.status == 200


async def test_a_body_is_not_read_before_the_key_is(keyed) -> None:
    client = await Client(keyed.serve(Scripted("a"), max_body_bytes=1), body=b"x" * 100)

    assert client.status == 401


async def test_a_stream_belongs_to_its_tenant(keyed) -> None:
    keyed.add("same", tenant="first")
    keyed.add("other")
    engine = Gated()
    keyed.serve(engine)
    client = keyed.ask("first")
    await within(engine.has_begun.wait())
    await client.until(1)
    path = f"/v1/streams/{client.frames_start_id()}"

    assert (await keyed.ask("other", path, method="DELETE")).status == 404
    assert (await keyed.ask("same", path, method="DELETE")).status == 202
    await client


async def test_a_key_that_is_added_is_known_without_a_restart(keyed) -> None:
    keyed.serve(Scripted("a"))
    keyed.add("new")
    assert (await keyed.ask("new")).status == 401

    keyed.clock.advance(1.1)

    assert (await keyed.ask("new")).status == 200


async def test_a_revoked_key_ends_its_streams_and_no_others(keyed) -> None:
    keyed.add("other")
    keyed.serve(Gated())
    revoked, other = keyed.ask("first"), keyed.ask("other")
    await revoked.until(1)
    await other.until(1)

    keyed.revoke("first")
    keyed.look()
    error, end = (await revoked).frames()[-2:]

    assert (error.code, error.retryable) == ("transport.key-revoked", False)
    assert end.finish[0].reason == "error"
    assert not other.is_over


async def test_a_revoked_key_is_refused_as_any_other(keyed) -> None:
    keyed.serve(Scripted("a"))
    keyed.revoke("first")
    keyed.clock.advance(2)

    client = await keyed.ask("first")

    assert (client.status, client.json["error"]["code"]) == (401, "transport.key-wrong")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_with_keys_a_server_may_listen_where_others_reach_it(host: str) -> None:
    check_bound(host, False, has_keys=True)
    with pytest.raises(UsageError, match="require no API key"):
        check_bound(host, False)


async def test_the_file_is_looked_at_while_something_runs_and_not_when_nothing_does(keyed) -> None:
    engine = Gated()
    running = keyed.serve(engine).running
    client = keyed.ask("first")
    await client.until(1)
    assert running._key_check is not None
    engine.tokens.put_nowait(None)
    await client

    keyed.look()

    assert running._key_check is None


async def test_an_expired_key_is_refused_and_ends_what_runs(keyed, monkeypatch) -> None:
    from datetime import timedelta

    keyed.add("short", lifetime=timedelta(hours=1))
    keyed.serve(Gated())
    client = keyed.ask("short")
    await client.until(1)

    monkeypatch.setattr("torvyn.transport.access.keyring.time.time", lambda: 9e9)
    keyed.look()
    await client

    assert client.frames()[-2].code == "transport.key-revoked"
    late = await keyed.ask("short")
    assert (late.status, late.json["error"]["code"]) == (401, "transport.key-expired")


async def test_a_key_file_that_breaks_changes_nothing(keyed, caplog) -> None:
    keyed.serve(Scripted("a"))
    keyed.path.write_text("{")
    keyed.clock.advance(2)

    assert (await keyed.ask("first")).status == 200
    assert "the server keeps the keys" in caplog.text


# The file


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "no list"),
        ('{"version": 2, "salt": "", "keys": []}', "version is 2"),
        ('{"version": 1, "keys": []}', "salt"),
        ('{"version": 1, "salt": "00", "keys": []}', "salt"),
        ('{"version": 1, "salt": "zz", "keys": []}', "hexadecimal"),
        ('{"version": 1, "salt": "%s", "keys": [7]}' % ("00" * 16), "not an object"),
        ('{"version": 1, "salt": "%s", "keys": [{"name": "a\\nb"}]}' % ("00" * 16), "letters"),
        ('{"version": 1, "salt": "%s", "keys": [{"name": "a"}]}' % ("00" * 16), "hash of `a`"),
        ('{"version": 1, "salt": "%s", "keys": [{"admin": 1}]}' % ("00" * 16), "admin"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(tmp_path, text: str, reason: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)

    with pytest.raises(UsageError, match=reason) as caught:
        key_file.read(path)

    assert caught.value.code == "transport.keys-invalid"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("max_streams", value) for value in (0, -1, 1.5, True, "1", 10**12)),
        *(("tokens_per_second", value) for value in (0, float("nan"), float("inf"))),
        *(("priority", "first"), ("expires", "soon"), ("created", "2026-01-01T00:00:00")),
        *(("tenant", "a b"), ("hash", "0")),
    ],
)
def test_a_value_that_cannot_be_is_refused(keyed, field: str, value: object) -> None:
    fields = json.loads(keyed.path.read_text())
    fields["keys"][0][field] = value
    keyed.path.write_text(json.dumps(fields))

    with pytest.raises(UsageError, match="not a key file"):
        key_file.read(keyed.path)


def test_a_pipe_is_no_key_file_and_is_not_waited_for(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="not a key file"):
        key_file.read(tmp_path / "pipe")


def test_a_file_that_others_can_write_is_refused_and_one_they_can_read_is_warned_of(keyed) -> None:
    keyed.path.chmod(0o644)
    assert "chmod 600" in key_file.read(keyed.path).warnings[0]

    keyed.path.chmod(0o620)
    with pytest.raises(UsageError, match="and so add keys"):
        key_file.read(keyed.path)


def test_changes_keep_the_file_for_its_owner_alone_and_leave_nothing_behind(keyed) -> None:
    keyed.path.chmod(0o644)
    keyed.add("second")

    assert keyed.path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(keyed.path.parent) == ["keys.json"]


def test_a_change_that_fails_leaves_the_file_as_it_was(keyed) -> None:
    before = keyed.path.read_bytes()

    with pytest.raises(UsageError):
        keyed.add("first")

    assert keyed.path.read_bytes() == before


def test_a_link_to_the_file_stays_a_link(keyed, tmp_path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(keyed.path)
    with key_file.edit(link) as file:
        file.add("second")

    assert link.is_symlink()
    assert set(key_file.read(keyed.path).keys) == {"first", "second"}


def test_many_concurrent_edits_lose_nothing(tmp_path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "keys.json"

    def add(number: int) -> None:
        with key_file.edit(path) as file:
            file.add(f"key{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))

    assert len(key_file.read(path).keys) == 24


def test_two_files_keep_different_hashes_of_one_key(tmp_path) -> None:
    assert key_file.KeyFile().digest("tvk_a") != key_file.KeyFile().digest("tvk_a")


def test_a_key_has_256_bits_and_is_not_in_the_file(keyed) -> None:
    key = keyed.keys["first"]

    assert len(key.removeprefix("tvk_")) == 43
    assert key.removeprefix("tvk_") not in keyed.path.read_text()
    assert Keyring(keyed.path).caller_of(key).name == "first"


def test_a_missing_key_file_is_an_error_before_the_server_starts(tmp_path) -> None:
    with pytest.raises(MissingError, match="cannot read") as caught:
        serving(Scripted("a"), keys=str(tmp_path / "none.json"))

    assert "torvyn keys add" in str(caught.value.hint)
