"""No route of a real server answers without a key or with a wrong, revoked or foreign one, and no
output contains a key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from guarded_server import KEYED, PRIVATE, WRONG, World, everything_written, serving, stream_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving(tmp_path_factory.mktemp("keys")) as made:
        yield made


@pytest.mark.parametrize(("method", "path"), KEYED)
@pytest.mark.parametrize("key", [None, WRONG, "Bearer", "tvk_"])
def test_no_route_answers_without_a_valid_key(
    world: World, method: str, path: str, key: str | None
) -> None:
    status, code = world.refused(method, path, key)

    wanted = "transport.key-missing" if key is None else "transport.key-wrong"
    assert (status, code) == (401, wanted)


@pytest.mark.parametrize("path", ["/nothing", "/v1/ws", "//v1/streams", "/v1/streams/", "/assets"])
def test_unknown_paths_look_like_known_ones_without_a_key(world: World, path: str) -> None:
    assert world.refused("POST", path, None) == (401, "transport.key-missing")


@pytest.mark.parametrize(
    "path", ["/assets/../v1/models", "/assets/..%2fflows", "/healthz/../flows"]
)
def test_no_way_round_leads_to_a_route_that_needs_a_key(world: World, path: str) -> None:
    status, _ = world.refused("GET", path, None)

    assert status in (401, 404)


@pytest.mark.parametrize(("method", "path"), [(m, p) for m, p in KEYED if "{id}" in p])
def test_another_tenants_streams_are_not_there(world: World, method: str, path: str) -> None:
    answer, id = stream_of(world, world.keys["ours"])
    found = world.refused(method, path.replace("{id}", id), world.keys["theirs"])
    flows = world.refused("GET", "/flows", world.keys["theirs"])

    kind = "instance" if path.startswith("/flows") else "stream"
    assert found == (404, f"transport.{kind}-unknown")
    assert flows == (403, "transport.key-not-admin")
    assert world.ask("DELETE", f"/v1/streams/{id}", world.keys["ours"]).status == 202
    assert b"stopped_by" in answer.read()


@pytest.mark.timeout(60)
def test_revoking_ends_streams_without_a_restart_and_shuts_every_route(world: World) -> None:
    answer, _ = stream_of(world, world.keys["gone"])
    world.torvyn("keys", "revoke", "gone")
    rest = answer.read().decode()

    assert "transport.key-revoked" in rest
    assert '"end"' in rest
    found = {world.refused(method, path, world.keys["gone"]) for method, path in KEYED}
    assert found == {(401, "transport.key-wrong")}


def test_no_file_or_log_contains_a_key_a_prompt_or_an_answer(world: World) -> None:
    _, id = stream_of(world, world.keys["ours"])
    world.ask("DELETE", f"/v1/streams/{id}", world.keys["ours"]).read()
    world.refused("GET", "/flows", WRONG)
    # A key in a place where it does not belong, which a log may repeat.
    world.refused("GET", f"/{world.keys['ours']}", world.keys["ours"])
    text = everything_written(world)

    secrets = [*world.keys.values(), WRONG]
    assert [secret for secret in secrets if secret.removeprefix("tvk_") in text] == []
    assert not any(said in text for said in (PRIVATE, "classified"))
    assert all(event in text for event in ('"key.refused"', '"stream.started"'))


def test_the_arguments_of_the_server_do_not_show_a_key(world: World) -> None:
    shown = Path(f"/proc/{world.server.pid}/cmdline")
    if not shown.exists():
        pytest.skip("command lines cannot be read here")

    assert "tvk_" not in shown.read_text()


def test_many_wrong_keys_are_all_refused_and_fill_no_disk(world: World) -> None:
    def attack(_: int) -> int:
        return world.refused("GET", "/flows", "tvk_" + os.urandom(24).hex())[0]

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(attack, range(200)))
    lines = (world.folder / "torvyn-audit.jsonl").read_text().splitlines()

    assert statuses == [401] * 200
    # One a second after the first sixty, whatever was asked.
    assert sum('"key.refused"' in line for line in lines) < 150
