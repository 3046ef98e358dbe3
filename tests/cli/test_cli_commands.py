"""What all commands have in common: help, colors, completion, and bugs in torvyn itself."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from transcript import EXAMPLE, Cli

from torvyn._cli.app import COMMANDS
from torvyn._io import local_cluster
from torvyn._io.process_record import ProcessRecord

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_summary_of_each_command(name: str) -> None:
    command = import_module(f"torvyn._cli.commands.{name}").command

    assert (command.help or "").splitlines()[0] == COMMANDS[name]


def all_commands() -> Iterator[str]:
    """Includes subcommands, such as `keys add`."""
    for name in COMMANDS:
        yield from with_subcommands(name, import_module(f"torvyn._cli.commands.{name}").command)


def with_subcommands(name: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield name
        return
    for part, subcommand in command.commands.items():
        yield from with_subcommands(f"{name} {part}", subcommand)


@pytest.mark.parametrize("name", list(all_commands()))
def test_every_command_has_an_example_and_the_shared_options(cli: Cli, name: str) -> None:
    text = cli(*name.split(), "--help").out

    examples = re.split(r"^  Examples?:$", text, flags=re.MULTILINE)[1]
    assert f"torvyn {name}" in examples
    for option in ("--format", "--color", "--quiet", "--verbose"):
        assert option in text


def test_help_loads_neither_native_code_nor_the_rooms_that_run_flows() -> None:
    code = (
        "import sys; from torvyn._cli import app; app.run(['--help']);"
        "print([name for name in sys.modules if name.startswith('torvyn.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = done.stdout.splitlines()[-1]
    for room in ("_native", "contract", "components", "manifest", "link", "reactor", "observe"):
        assert f"'torvyn.{room}" not in loaded


def test_the_module_and_the_script_are_the_same_command(start: Start) -> None:
    script = Path(sys.executable).with_name("torvyn")
    as_module = start("run", cwd=EXAMPLE, stderr=subprocess.STDOUT).communicate()[0]

    as_script = subprocess.run(
        [script, "run"], cwd=EXAMPLE, text=True, stdout=-1, stderr=-2, check=True
    )

    assert as_script.stdout == as_module


def test_colors_are_used_only_on_request(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert "\x1b[" not in cli("run", "nope", cwd=EXAMPLE).err
    assert "\x1b[" not in cli("run", "nope", "--color", "never", cwd=EXAMPLE).err
    assert cli("run", "nope", "--color", "always", cwd=EXAMPLE).err.startswith("\x1b[1;31merror[")


def test_errors_are_json_with_format_json(cli: Cli) -> None:
    done = cli("run", "mian", "--format", "json", cwd=EXAMPLE)

    record = json.loads(done.err)
    assert (done.code, record["exit_code"], record["schema_version"]) == (2, 2, 1)
    assert record["problems"][0]["code"] == "link.flow-unknown"
    assert record["problems"][0]["hint"] == "did you mean `main`?"


def test_a_shell_completes_matching_commands(start: Start) -> None:
    words = {"_TORVYN_COMPLETE": "bash_complete", "COMP_WORDS": "torvyn co", "COMP_CWORD": "1"}

    out = start(env={**os.environ, **words}).communicate()[0]

    assert out.split() == ["plain,config", "plain,completions"]


def test_a_bug_in_torvyn_is_reported_without_a_traceback(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("this cannot be")

    monkeypatch.setattr("torvyn._manifest.json_schema.json_schema", broken)

    done = cli("schema")
    assert done.code == 70
    assert done.err.startswith("error[cli.bug]: torvyn failed: RuntimeError: this cannot be\n")
    assert "Traceback" not in done.err
    assert "in broken" in cli("schema", "-v").err


def test_doctor_reports_all_requirements(cli: Cli, tmp_path: Path) -> None:
    done = cli("doctor", "--format", "json", cwd=tmp_path)

    findings = {finding["what"]: finding for finding in json.loads(done.out)["findings"]}
    assert done.code == 0
    assert {"python", "native module", "cores", "memory", "open files"} <= set(findings)
    assert findings["python"]["status"] == "ok"


def test_doctor_names_the_missing_native_module(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torvyn._native", None)

    done = cli("doctor", cwd=tmp_path)

    assert done.code == 3
    assert "fail  native module" in done.out
    assert "hint: install torvyn again" in done.out


def test_doctor_warns_of_a_wrong_manifest(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text("[torvyn")

    done = cli("doctor", cwd=tmp_path)

    assert done.code == 0
    assert "warn  manifest" in done.out


def test_schema_grpc_prints_the_proto_file(cli: Cli) -> None:
    proto = cli("schema", "--grpc").out

    assert "service Inference {" in proto
    assert json.loads(cli("schema", "--grpc", "--format", "json").out)["proto"] == proto


def test_schema_is_a_json_schema(cli: Cli) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(cli("schema").out)

    Draft202012Validator.check_schema(schema)
    assert json.loads(cli("schema", "--format", "json").out)["schema"] == schema


def test_config_shows_where_values_come_from_and_hides_secrets(
    cli: Cli, project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORVYN_RUNTIME__TURN_ELEMENTS", "7")
    monkeypatch.setenv("LEVEL", "diagnostic")
    nodes = {"source": 'component = "lines"', "sink": 'component = "console"'}
    settings = '[runtime]\ncall_timeout = "3s"\n[observability]\nlevel = "${LEVEL}"\n'

    done = cli("config", "--set", "runtime.worker_threads=2", cwd=project(nodes, settings))

    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in done.out.splitlines()}
    assert rows["runtime.worker_threads"].startswith("2 flag")
    assert rows["runtime.turn_elements"].startswith("7 environment")
    assert rows["runtime.call_timeout"].startswith("3s manifest, Torvyn.toml:")
    assert rows["runtime.drain_timeout"] == "5s default"
    assert rows["observability.level"].startswith("[redacted] manifest")


def test_check_says_all_problems_at_once(cli: Cli, project: Callable[..., Path]) -> None:
    nodes = {"source": 'component = "liens"', "sink": 'component = "console"\nuint = "lines"'}

    done = cli("check", cwd=project(nodes, part="this is not python"))

    assert (done.code, done.out) == (2, "")
    for code in ("link.component-unknown", "manifest.unknown-key", "link.component-import"):
        assert f"error[{code}]" in done.err
    assert done.err.endswith("Torvyn.toml: 3 problems\n")


def test_doctor_names_what_a_cluster_needs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server is looked for beside Python, then on the PATH.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    done = cli("doctor", "--format", "json", cwd=tmp_path)

    findings = {finding["what"]: finding for finding in json.loads(done.out)["findings"]}
    assert "nats-server" in findings["cluster"]["text"]
    assert "broker" not in findings


def test_doctor_shows_the_limit_of_open_files_and_what_serve_makes_of_it(
    cli: Cli, tmp_path: Path
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1] - 1, limits[1]))
    try:
        done = cli("doctor", cwd=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    assert f"{limits[1] - 1}; `torvyn serve` raises it to {limits[1]}" in done.out


def test_doctor_warns_of_a_broker_that_has_ended(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = local_cluster.state_folder()
    folder.mkdir(parents=True)
    ended = ProcessRecord(os.getpid(), "earlier")
    broker = local_cluster.Broker(ended, 0.0, "2.15.1", 4222, "token", "always", "store", "log")
    local_cluster.write_state(folder, local_cluster.LocalCluster(broker))

    done = cli("doctor", cwd=tmp_path)

    assert "warn  broker" in done.out
    assert "torvyn cluster up" in done.out
