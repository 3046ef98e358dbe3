"""What the server does for all callers is for keys with the scope `admin`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from asgi_client import Client, Gated, serving, within
from keyed_server import Keyed

from torvyn.engine import Scripted

OPERATIONS = ("/flows", "/metrics", "/pools")


@pytest.mark.parametrize("path", OPERATIONS)
async def test_operations_need_an_admin_key(keyed: Keyed, path: str) -> None:
    keyed.add("operator", scope="admin")
    keyed.add("plain", scope="inference")
    keyed.serve(Scripted("a"))

    for name in ("first", "plain"):
        refused = await keyed.ask(name, path, method="GET")
        assert (refused.status, refused.json["error"]["code"]) == (403, "transport.key-not-admin")
        assert "--scope admin" in refused.json["error"]["hint"]
    assert (await keyed.ask("operator", path, method="GET")).status == 200


@pytest.mark.parametrize("path", OPERATIONS)
async def test_a_server_without_keys_shows_its_operations(path: str) -> None:
    assert (await Client(serving(Scripted("a")), path, method="GET")).status == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_needs_no_key(keyed: Keyed, path: str) -> None:
    assert (await Client(keyed.serve(Scripted("a")), path, method="GET")).status == 200


async def test_an_admin_sees_the_streams_of_every_tenant_and_cannot_stop_them(keyed: Keyed) -> None:
    keyed.add("operator", scope="admin")
    engine = Gated()
    keyed.serve(engine)
    client = keyed.ask("first")
    await within(engine.has_begun.wait())
    await client.until(1)
    path = f"/v1/streams/{client.frames_start_id()}"

    assert len((await keyed.ask("operator", "/flows", method="GET")).json["streams"]) == 1
    assert (await keyed.ask("operator", path, method="DELETE")).status == 404
    assert (await keyed.ask("first", path, method="DELETE")).status == 202
    await client


async def test_a_scope_that_is_taken_away_is_noticed(keyed: Keyed) -> None:
    keyed.add("operator", scope="admin")
    keyed.serve(Scripted("a"))
    keys = json.loads(keyed.path.read_text())
    keys["keys"][-1]["scope"] = "inference"
    keyed.path.write_text(json.dumps(keys))
    keyed.clock.advance(1.1)

    assert (await keyed.ask("operator", "/flows", method="GET")).status == 403


async def test_the_audit_log_says_who_tried(keyed: Keyed, tmp_path: Path) -> None:
    keyed.serve(Scripted("a"), audit="file", audit_file=str(tmp_path / "audit"))
    await keyed.ask("first", "/metrics", method="GET")

    assert '"transport.key-not-admin"' in (tmp_path / "audit").read_text()
