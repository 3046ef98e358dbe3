"""Two projects at one broker: what one discards or removes is its own. `torvyn cluster remove`."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scale import sample

import torvyn
from nats_server import NatsServer, ask
from torvyn.errors import FlowError

MANIFEST = """
[torvyn]
name = "{project}"
version = "1.0.0"
contract_version = "0.1.0"

[cluster]
nats = "{url}"
{settings}

[flow.main.nodes.a]
component = "lines"
config = {{ path = "lines.txt" }}

[flow.main.nodes.b]
component = "file"
config = {{ path = "written.txt" }}

[[flow.main.edges]]
from = "a"
to = "b"
carrier = "nats"
"""
LINES = ["one", "two", "three"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = NatsServer(port, tmp_path / "nats")
    server.start()
    yield server
    server.stop()


def make(server: NatsServer, folder: Path, project: str = "shop", settings: str = "") -> Path:
    folder.mkdir(parents=True)
    text = MANIFEST.format(project=project, url=server.url, settings=settings)
    (folder / "Torvyn.toml").write_text(text)
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    return folder


def command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "torvyn", *words]
    environment = {name: os.environ[name] for name in os.environ if "TORVYN_" not in name}
    return subprocess.run(
        call, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def run(folder: Path, *segments: str, is_fresh: bool = False, **settings: str) -> None:
    named = {f"cluster.{name}": value for name, value in settings.items()}
    with contextlib.chdir(folder):
        flow = torvyn.load("Torvyn.toml").flow("main", segments=segments, settings=named)
        flow.is_fresh = is_fresh
        flow.run()


def write_half(folder: Path) -> None:
    """The first segment alone: three lines wait on the broker."""
    run(folder, "a")


def streams(server: NatsServer) -> dict[str, int]:
    async def call(client: Any, js: Any) -> dict[str, int]:
        return {each.config.name: each.state.messages for each in await js.streams_info()}

    found: dict[str, int] = ask(server, call)
    return found


def written(folder: Path) -> list[str]:
    return (folder / "written.txt").read_text().splitlines()


OTHERS = ("another checkout", "another project", "another namespace")
WAYS = ("--fresh", "remove", "run")
CASES = list(itertools.product(OTHERS, WAYS))


@pytest.mark.parametrize(
    ("other", "way"),
    sample(
        [(OTHERS[0], WAYS[0]), (OTHERS[1], WAYS[1])], full=list(itertools.product(OTHERS, WAYS))
    ),
)
def test_a_project_never_touches_what_another_one_has(
    server: NatsServer, tmp_path: Path, other: str, way: str
) -> None:
    mine = make(server, tmp_path / "mine")
    settings = 'namespace = "elsewhere"' if other == "another namespace" else ""
    project = "office" if other == "another project" else "shop"
    theirs = make(server, tmp_path / "theirs", project, settings)
    for folder in (mine, theirs):
        write_half(folder)
    before = streams(server)
    assert len(before) == 4
    if way == "remove":
        assert command(theirs, "cluster", "remove", "main", "--yes").returncode == 0
    else:
        run(theirs, is_fresh=way == "--fresh")
        assert set(written(theirs)) == set(LINES)
    after = streams(server)
    kept = [name for name, count in before.items() if after.get(name) == count]
    assert len([name for name in kept if not name.startswith("KV_")]) >= 1
    run(mine, "b")
    assert written(mine) == LINES


def test_remove_says_what_it_removes(server: NatsServer, tmp_path: Path) -> None:
    folder = make(server, tmp_path / "shop", settings='namespace = "shop"')
    nothing = command(folder, "cluster", "remove", "main", "--yes")
    assert (nothing.returncode, nothing.stderr) == (
        0,
        "[torvyn] The flow `main` has nothing on the broker in the namespace `shop`.\n",
    )
    write_half(folder)
    asked = command(folder, "cluster", "remove", "main")
    assert asked.returncode == 2
    assert "add `--yes`" in asked.stderr
    assert set(streams(server)) == {"TV_shop_main_a-output-b", "KV_tv_shop_main"}

    done = command(folder, "cluster", "remove", "flow.main", "--yes")
    assert done.returncode == 0
    assert "[torvyn] Removed TV_shop_main_a-output-b: " in done.stderr
    assert "[torvyn] Removed KV_tv_shop_main: saved values, " in done.stderr
    assert streams(server) == {}


class Waiting(torvyn.Source):
    def pull(self) -> object:
        return torvyn.PENDING.after(0.01)


def test_a_flow_that_runs_is_not_removed(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(server, tmp_path / "shop", settings='namespace = "shop"')
    monkeypatch.setenv("TORVYN_CLUSTER__NATS", server.url)
    monkeypatch.setenv("TORVYN_CLUSTER__NAMESPACE", "shop")
    flow = torvyn.Flow(name="main").add("a", Waiting()).add("b", torvyn.sink(print))
    flow.connect("a", "b", carrier="nats").start()
    refused = command(folder, "cluster", "remove", "main", "--yes")
    flow.cancel()
    assert flow.wait(30)
    assert refused.returncode == 1
    assert "error[broker.flow-runs]" in refused.stderr
    assert f"process {os.getpid()} on {socket.gethostname()}" in refused.stderr
    assert command(folder, "cluster", "remove", "main", "--yes").returncode == 0


def test_what_ran_before_there_were_namespaces_does_not_begin_anew_by_itself(
    server: NatsServer, tmp_path: Path
) -> None:
    folder = make(server, tmp_path / "shop", settings='namespace = ""')
    write_half(folder)
    assert set(streams(server)) == {"TV_main_a-output-b", "KV_tv_main"}
    file = folder / "Torvyn.toml"
    file.write_text(file.read_text().replace('namespace = ""', ""))

    with pytest.raises(FlowError, match="has run on this broker before") as caught:
        run(folder)
    assert caught.value.code == "broker.before-namespaces"
    # One way goes on with it, the other one begins anew.
    run(folder, "b", namespace="")
    assert written(folder) == LINES
    assert command(folder, "cluster", "remove", "main", "--namespace", "", "--yes").returncode == 0
    run(folder)
