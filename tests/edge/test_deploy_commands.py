"""`torvyn deploy add | list | activate | rollback | gc` on a packed project."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from versioned_gateway import pack

from torvyn._artifact.oci import TITLE
from torvyn._cli import app
from torvyn._deploy.deployment import Deployment
from torvyn._deploy.generation_process import generation_command, problem_of
from torvyn._deploy.settings import DeploymentSettings
from torvyn.errors import DeployError

Deploy = Callable[..., Any]

SECOND = """
[flow.second.nodes.readings]
component = "parts"

[flow.second.nodes.sink]
component = "null"

[[flow.second.edges]]
from = "readings"
to = "sink"
"""


@pytest.fixture
def deploy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Deploy:
    """Runs a command and returns the document that it prints."""

    def call(*arguments: object, code: int = 0) -> Any:
        words = ["deploy", *map(str, arguments), "--root", str(tmp_path / "root")]
        assert app.run([*words, "--format", "json"]) == code
        out, err = capfd.readouterr()
        return json.loads(out if code == 0 else err)

    return call


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """A layout with two versions."""
    for version in ("1.0.0", "2.0.0"):
        pack(tmp_path / "dist", version, tmp_path / "delivered.txt")
    return tmp_path / "dist"


def test_an_added_artifact_becomes_a_generation(deploy: Deploy, dist: Path) -> None:
    added = deploy("add", "gateway", f"oci:{dist}:1.0.0")

    assert (added["number"], added["title"]) == (1, "gateway 1.0.0")
    assert added["state"] == "current (on trial)"


EVIL = "\x1b[2J\x9b31m\u202e\u2028\n[torvyn] All is well."


@pytest.mark.parametrize("words", [["add", "gateway"], ["list"], ["inspect"]], ids=lambda w: w[0])
def test_nothing_that_an_artifact_says_is_obeyed_by_a_terminal(
    deploy: Deploy, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    layout, plain = pack(tmp_path / "evil", "1.0.0", tmp_path / "delivered.txt")
    annotations = {TITLE: EVIL, "org.opencontainers.image.version": EVIL, EVIL: EVIL}
    manifest = replace(layout.manifest(plain), annotations=annotations)
    layout.add_manifest(manifest, "evil")
    root, reference = str(tmp_path / "root"), f"oci:{tmp_path / 'evil'}:evil"
    deploy("add", "gateway", reference)
    capfd.readouterr()
    lines = {
        "add": ["deploy", *words, reference, "--root", root],
        "list": ["deploy", *words, "--root", root],
        "inspect": [*words, reference],
    }

    assert app.run(lines[words[0]]) == 0

    out, err = capfd.readouterr()
    shown = out + err
    assert "[2J" in shown
    assert not {*shown} & {"\x1b", "\x9b", "\u202e", "\u2028"}
    assert "\n[torvyn] All" not in shown


@pytest.mark.promise("edge.remote-updates")
def test_a_generation_is_activated_and_rolled_back(deploy: Deploy, dist: Path) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")
    deploy("add", "gateway", f"oci:{dist}:2.0.0")
    assert deploy("activate", "gateway")["current"] == 2

    problem = deploy("rollback", "gateway", code=2)["problems"][0]

    # Nothing has run yet, so no generation is known to be good.
    assert problem["code"] == "edge.no-fallback"
    assert deploy("activate", "gateway", 1)["current"] == 1


@pytest.fixture
def two_flows(tmp_path: Path) -> str:
    """A layout whose project has the flows `main` and `second`."""
    pack(tmp_path / "two", "1.0.0", tmp_path / "delivered.txt", extra=SECOND)
    return f"oci:{tmp_path / 'two'}:1.0.0"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--flow", "second"], ["flow.second"]),
        (["--flow", "main", "--flow", "second"], ["flow.main", "flow.second"]),
        (["--all"], ["--all"]),
    ],
)
def test_a_deployment_runs_the_flows_that_were_named(
    deploy: Deploy, two_flows: str, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    deploy("add", "gateway", two_flows, "--flow", "main")
    deploy("add", "gateway", two_flows, *options)
    # What was named is kept.
    deploy("add", "gateway", two_flows)

    deployment = Deployment(tmp_path / "root/gateway")
    settings, record = DeploymentSettings.read(deployment.settings_file), deployment.record(3)
    command = generation_command(deployment, settings, record)
    assert command[3 : command.index("--manifest")] == ["run", *words]
    assert problem_of(deployment, settings, record) is None


def test_an_update_is_checked_with_all_its_flows(
    deploy: Deploy, tmp_path: Path, two_flows: str
) -> None:
    broken = SECOND.replace("parts", "sensor")
    pack(tmp_path / "dist", "2.0.0", tmp_path / "delivered.txt", extra=broken)
    deploy("add", "gateway", f"oci:{tmp_path / 'dist'}:2.0.0", "--all")

    deployment = Deployment(tmp_path / "root/gateway")
    settings, record = DeploymentSettings.read(deployment.settings_file), deployment.record(1)
    assert problem_of(deployment, settings, record) == "unknown component `sensor`"


def test_flows_that_contradict_each_other_are_refused(deploy: Deploy, two_flows: str) -> None:
    both = deploy("add", "gateway", two_flows, "--flow", "main", "--all", code=2)
    twice = deploy("add", "gateway", two_flows, "--flow", "main", "--flow", "main", code=2)

    messages = [each["problems"][0]["message"] for each in (both, twice)]
    assert messages == [
        "`--all` runs every flow, and you named `main` too",
        "you named flow `main` twice",
    ]


@pytest.mark.parametrize(
    "options", [["--serve", "--flow", "main"], ["--serve", "--all"], ["--insecure"]]
)
def test_options_of_add_that_would_be_ignored_are_refused(
    deploy: Deploy, two_flows: str, options: list[str]
) -> None:
    problem = deploy("add", "gateway", two_flows, *options, code=2)["problems"][0]

    assert (problem["code"], "means nothing" in problem["message"]) == ("cli.bad-usage", True)


def test_a_served_deployment_runs_a_flow_that_is_named_later(
    deploy: Deploy, two_flows: str, tmp_path: Path
) -> None:
    file = Deployment(tmp_path / "root/gateway").settings_file
    deploy("add", "gateway", two_flows, "--serve")
    served = DeploymentSettings.read(file)

    deploy("add", "gateway", two_flows, "--flow", "second")

    run = DeploymentSettings.read(file)
    assert [(each.command, each.flows) for each in (served, run)] == [
        ("serve", ()),
        ("run", ("second",)),
    ]


@pytest.mark.parametrize(("flow", "flows"), [("main", ("main",)), (None, ())])
def test_settings_of_an_earlier_version_name_one_flow(
    tmp_path: Path, flow: str | None, flows: tuple[str, ...]
) -> None:
    file = tmp_path / "deployment.json"
    file.write_text(json.dumps({"schema": 1, "command": "run", "flow": flow}))

    settings = DeploymentSettings.read(file)
    settings.write(file)

    assert (settings.flows, settings.is_all) == (flows, False)
    assert DeploymentSettings.read(file) == settings


@pytest.mark.parametrize("wrong", [{"flows": "main"}, {"flows": ["main"], "is_all": True}])
def test_settings_with_wrong_flows_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    file = tmp_path / "deployment.json"
    file.write_text(json.dumps({"schema": 1, **wrong}))

    with pytest.raises(DeployError, match="`flows`"):
        DeploymentSettings.read(file)


def test_generations_that_are_not_needed_are_removed(deploy: Deploy, dist: Path) -> None:
    for version in ("1.0.0", "2.0.0", "1.0.0"):
        deploy("add", "gateway", f"oci:{dist}:{version}")

    assert deploy("gc", "gateway", "--keep", "1")["removed"] == [2]
    listed = deploy("list", "gateway")["deployments"][0]
    assert [each["number"] for each in listed["generations"]] == [1, 3]


def test_a_tampered_artifact_is_not_added(deploy: Deploy, dist: Path) -> None:
    blobs = sorted((dist / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    for blob in blobs:
        blob.chmod(0o644)
        blob.write_bytes(blob.read_bytes().replace(b"sleep", b"SLEEP"))

    problem = deploy("add", "gateway", f"oci:{dist}:1.0.0", code=2)["problems"][0]

    assert problem["code"] == "artifact.digest-mismatch"
    assert deploy("list")["deployments"][0]["generations"] == []


def test_a_generation_cannot_be_changed_by_accident(
    deploy: Deploy, dist: Path, tmp_path: Path
) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")

    project = tmp_path / "root/gateway/current/project"
    assert {path.stat().st_mode & 0o222 for path in project.rglob("*") if path.is_file()} == {0}


def test_a_deployment_is_installed_as_a_service(
    deploy: Deploy, dist: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    deploy("add", "gateway", f"oci:{dist}:1.0.0")
    words = ["service", "install", "--deployment", "gateway", "--root", str(tmp_path / "root")]

    assert app.run([*words, "--print"]) == 0

    unit = capfd.readouterr().out
    assert f"-m torvyn deploy run gateway --root {tmp_path / 'root'}" in unit
    assert f"WorkingDirectory={tmp_path / 'root/gateway/data'}" in unit
    assert "STATE_DIR" not in unit


def test_a_service_of_several_flows_has_time_to_stop_the_longest(
    deploy: Deploy, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def stop_s(*nodes: str) -> int:
        """Of a deployment whose second flow has these nodes as well."""
        more = "".join(
            f"[flow.second.nodes.{name}]\ncomponent = 'null'\n"
            f"[[flow.second.edges]]\nfrom = 'readings'\nto = '{name}'\n"
            for name in nodes
        )
        name = f"gateway{len(nodes)}"
        pack(tmp_path / name, "1.0.0", tmp_path / "delivered.txt", extra=SECOND + more)
        deploy("add", name, f"oci:{tmp_path / name}:1.0.0", "--all")
        words = ["service", "install", "--deployment", name, "--root", str(tmp_path / "root")]
        assert app.run([*words, "--print"]) == 0
        unit = capfd.readouterr().out
        return int(unit.partition("TimeoutStopSec=")[2].split()[0])

    assert stop_s("a", "b") > stop_s()
