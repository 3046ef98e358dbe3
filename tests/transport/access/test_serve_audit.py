"""The audit log of a server: names and counts, and no text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asgi_client import PROMPT_BODY, Client, Gated, serving

from torvyn.engine import Scripted
from torvyn.errors import MissingError
from torvyn.transport.access.audit import Audit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


async def test_a_stream_is_written_down_from_its_key_to_its_end(keyed, file: Path) -> None:
    keyed.add("web", tenant="shop")
    keyed.serve(Scripted("the answer is secret"), audit="file", audit_file=str(file))
    client = await keyed.ask("web", body={"prompt": "a private question"})

    used, started, ended = lines(file)
    assert (used["event"], used["key"], used["tenant"]) == ("key.used", "web", "shop")
    assert started["event"] == "stream.started"
    assert started["request_id"] == client.frames()[0].id
    assert (ended["event"], ended["tenant"], ended["flow"]) == ("stream.ended", "shop", "chat")
    assert (ended["finish"], ended["completion_tokens"]) == (["stop"], 4)
    assert used["request_id"] == ended["request_id"] == client.headers["x-request-id"]
    assert not any(word in file.read_text() for word in ("secret", "private", keyed.keys["web"]))


async def test_a_refused_key_is_known_by_the_beginning_of_its_hash(keyed, file: Path) -> None:
    application = keyed.serve(Scripted("a"), audit="file", audit_file=str(file))
    headers = {"authorization": "Bearer tvk_" + "x" * 43}
    await Client(application, body=PROMPT_BODY, headers=headers)
    await Client(application, body=PROMPT_BODY)

    wrong, missing = lines(file)
    assert (wrong["event"], wrong["code"]) == ("key.refused", "transport.key-wrong")
    assert len(wrong["key_id"]) == 8
    assert (missing["code"], "key_id" in missing) == ("transport.key-missing", False)
    assert "tvk_" not in file.read_text()


async def test_what_runs_for_a_revoked_key_ends_in_the_audit_too(keyed, file: Path) -> None:
    keyed.serve(Gated(), audit="file", audit_file=str(file))
    client = keyed.ask("first")
    await client.until(1)
    keyed.revoke("first")
    keyed.look()
    await client

    *_, changed, ended = lines(file)
    assert (changed["event"], changed["revoked"]) == ("keys.changed", ["first"])
    assert ended["error"] == "transport.key-revoked"


async def test_a_limit_that_refuses_is_written_down(keyed, file: Path) -> None:
    keyed.add("calm", requests_per_minute=1)
    keyed.serve(Scripted("a"), audit="file", audit_file=str(file))
    await keyed.ask("calm")
    await keyed.ask("calm")

    refused = lines(file)[-1]
    assert (refused["code"], refused["key"]) == ("transport.key-rate", "calm")


async def test_endless_rejections_do_not_fill_the_disk(keyed, file: Path) -> None:
    application = keyed.serve(Scripted("a"), audit="file", audit_file=str(file))
    for _ in range(300):
        await Client(application, body=PROMPT_BODY)
    assert len(lines(file)) == 60

    keyed.clock.advance(1)
    await Client(application, body=PROMPT_BODY)

    assert lines(file)[-1]["suppressed"] == 240


async def test_a_server_without_keys_has_an_audit_as_well(file: Path) -> None:
    await Client(serving(Scripted("a"), audit="file", audit_file=str(file)), body=PROMPT_BODY)

    assert [line["event"] for line in lines(file)] == ["stream.started", "stream.ended"]
    assert "key" not in lines(file)[0]


async def test_on_standard_output_it_is_lines_as_well(capsys) -> None:
    await Client(serving(Scripted("a"), audit="stdout"), body=PROMPT_BODY)

    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["stream.started", "stream.ended"]


def test_names_cannot_forge_lines(file: Path) -> None:
    audit = Audit("file", str(file))
    audit.administered("key.added", key='a"}\n{"event": "x\x1b[2J\x7f\u2028')

    raw = file.read_bytes()
    assert raw.count(b"\n") == 1
    assert not set(raw) - set(range(0x20, 0x7F)) - {0x0A}


def test_the_file_is_for_its_owner_alone(file: Path) -> None:
    Audit("file", str(file)).administered("key.added")

    assert file.stat().st_mode & 0o077 == 0


def test_a_server_whose_audit_cannot_be_kept_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="cannot write the audit file"):
        serving(Scripted("a"), audit="file", audit_file=str(tmp_path / "no" / "audit"))
