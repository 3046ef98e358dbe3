"""Keys and sessions: a session belongs to its tenant, and counts for the key that started it."""

from __future__ import annotations

from pathlib import Path

from asgi_client import PROMPT_BODY, Client, Gated, within
from keyed_server import Keyed

from torvyn.engine import Scripted

STATEFUL = {**PROMPT_BODY, "stateful": True}


async def begun(keyed: Keyed, name: str, **settings: object) -> tuple[Gated, Client, str]:
    """A stateful answer of that key: its engine, its client and its path."""
    engine = Gated()
    keyed.serve(engine, **settings)
    client = keyed.ask(name, body=STATEFUL)
    await client.until(1)
    await within(engine.has_begun.wait())
    return engine, client, f"/v1/streams/{client.frames_start_id()}"


async def test_a_session_is_there_for_its_tenant_alone(keyed: Keyed) -> None:
    keyed.add("same", tenant="first")
    keyed.add("other")
    engine, client, path = await begun(keyed, "first")
    client.leave()
    await client

    for query in ({}, {"observe": "1"}):
        assert (await keyed.ask("other", path, method="GET", query=query)).status == 404
    assert (await keyed.ask("other", path, method="DELETE")).status == 404
    again = keyed.ask("same", path, method="GET")
    await again.until(1)
    engine.tokens.put_nowait(None)
    await again
    assert again.status == 200


async def test_a_session_counts_for_its_key_while_its_client_is_away(keyed: Keyed) -> None:
    keyed.add("one", max_streams=1)
    engine, client, _ = await begun(keyed, "one")
    client.leave()
    await client

    assert (await keyed.ask("one", body=STATEFUL)).status == 429
    assert (await keyed.ask("one")).json["error"]["code"] == "transport.key-busy"
    engine.tokens.put_nowait(None)


async def test_a_revoked_key_ends_its_session(keyed: Keyed) -> None:
    engine, client, _ = await begun(keyed, "first")

    keyed.revoke("first")
    keyed.look()
    await client

    assert client.frames()[-2].code == "transport.key-revoked"
    await within(engine.was_left.wait())


async def test_an_observer_with_a_revoked_key_is_disconnected(keyed: Keyed) -> None:
    keyed.add("watcher", tenant="first")
    _, client, path = await begun(keyed, "first")
    watching = keyed.ask("watcher", path, method="GET", query={"observe": "1"})
    await watching.until(1)

    keyed.revoke("watcher")
    keyed.look()
    await watching

    assert watching.frames()[-2].code == "transport.key-revoked"
    assert not client.is_over


async def test_a_session_has_no_more_priority_than_its_key(keyed: Keyed) -> None:
    keyed.add("batch", priority="low")
    engine = Gated()
    application = keyed.serve(engine)
    client = keyed.ask("batch", body={**STATEFUL, "priority": "critical"})
    await client.until(1)
    (call,) = application.running.calls.values()

    assert call.answer.request.priority == "low"
    engine.tokens.put_nowait(None)
    await client


async def killed(keyed: Keyed, store: str) -> str:
    """The path of a session whose process is gone."""
    first = keyed.serve(Scripted("a b c", delay=60), session_store=store)
    client = keyed.ask("first", body=STATEFUL)
    await client.until(2)
    first.end_calls()
    await client
    first.sessions.close()
    return f"/v1/streams/{client.frames_start_id()}"


async def test_a_session_of_another_process_continues_with_the_key_that_resumes_it(
    keyed: Keyed, tmp_path: Path
) -> None:
    store = str(tmp_path / "sessions.db")
    keyed.add("other")
    path = await killed(keyed, store)
    sessions = keyed.serve(Scripted("a b c"), session_store=store).sessions

    assert (await keyed.ask("other", path, method="GET")).status == 404
    assert len(sessions) == 0
    assert '"end"' in (await keyed.ask("first", path, method="GET")).body.decode()
    sessions.close()


async def test_a_tenant_with_many_sessions_loses_its_own_first(keyed: Keyed) -> None:
    keyed.add("other")
    application = keyed.serve(Scripted("a"), max_sessions=2)
    asked = [await keyed.ask(name, body=STATEFUL) for name in ("first", "other", "other")]
    kept = [client.frames_start_id() in application.sessions._sessions for client in asked]

    assert kept == [True, False, True]
