"""Warnings: optional requests without a grant, and grants without a request, stop nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torvyn import TorvynError
from torvyn._link.project_linker import ProjectLinker

GUEST = Path(__file__).parents[1] / "sandbox" / "guests" / "filter.wasm"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("a\n")
    path = tmp_path / "Torvyn.toml"
    path.write_text(f"""
[torvyn]
name = "x"
version = "0.1.0"
contract_version = "0.1.0"
[[component]]
name = "part"
path = "{GUEST}"
capabilities = ["?random:crypto", "filesystem:read:data"]
[flow.main.nodes]
a = {{ component = "lines", config = {{ path = "in.txt" }} }}
b = {{ component = "part" }}
c = {{ component = "console" }}
[[flow.main.edges]]
from = "a"
to = "b"
[[flow.main.edges]]
from = "b"
to = "c"
[security.grants.part]
capabilities = ["stdio:stdout", "filesystem:read:."]
[runtime]
cache_dir = "{tmp_path / "cache"}"
""")
    return path


CODES = ["link.capability-wished", "link.capability-unasked"]


IN_PROCESS = """\
import torvyn

class Part(torvyn.Aggregator):
    def ingest(self, element): ...
"""
UNCOUNTED = (
    "warning[link.memory-uncounted]: `max_memory` of `Part` counts payloads only, not what its "
    "code keeps\n"
)


def torvyn(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torvyn", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_a_plan_carries_its_warnings(manifest: Path) -> None:
    warnings = ProjectLinker.open(manifest).plan().warnings

    assert [warning.code for warning in warnings] == CODES
    assert {warning.severity for warning in warnings} == {"warning"}
    assert all(warning.location and warning.location.line and warning.hint for warning in warnings)


@pytest.mark.parametrize("command", ["check", "link", "run", "trace"])
def test_every_command_prints_warnings_and_succeeds(manifest: Path, command: str) -> None:
    done = torvyn(command, cwd=manifest.parent)

    assert done.returncode == 0
    assert done.stdout == "a\n" or command != "run"
    for code in CODES:
        assert f"warning[{code}]" in done.stderr


def test_programs_get_warnings_too(manifest: Path) -> None:
    checked = json.loads(torvyn("check", "--format", "json", cwd=manifest.parent).stdout)
    ran = torvyn("run", "--stats", "--format", "json", cwd=manifest.parent).stdout
    statistics = json.loads(ran.splitlines()[-1])

    assert checked["ok"]
    assert [problem["code"] for problem in checked["problems"]] == CODES
    assert [problem["code"] for problem in statistics["warnings"]] == CODES


def test_a_component_that_says_nothing_is_not_compared(manifest: Path) -> None:
    text = manifest.read_text()
    manifest.write_text("\n".join(x for x in text.splitlines() if "?random" not in x))

    assert ProjectLinker.open(manifest).plan().warnings == ()


@pytest.mark.parametrize(
    ("grant", "hint"),
    [
        ("filesytem:read:data", "did you mean `filesystem:read`?"),
        ("?stdio:stdout", "a `?` marks an optional request of a component; a grant has none"),
        ("disk", "a capability starts with `filesystem:read`"),
        ("filesystem:read:", "write it like"),
    ],
)
def test_a_grant_that_is_none_says_which_there_are(manifest: Path, grant: str, hint: str) -> None:
    manifest.write_text(manifest.read_text().replace("stdio:stdout", grant))

    with pytest.raises(TorvynError) as raised:
        ProjectLinker.open(manifest).plan()

    assert raised.value.diagnostics[0].code == "link.capability-bad"
    assert str(raised.value.diagnostics[0].hint).startswith(hint)


def test_a_grant_to_a_component_that_does_not_exist_is_an_error(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("grants.part]", "grants.prat]"))

    for command in ("check", "run"):
        done = torvyn(command, cwd=manifest.parent)
        assert done.returncode == 2
        assert (
            "error[link.grant-unknown]: `[security.grants.prat]` names an unknown component"
            in done.stderr
        )
        assert "did you mean `part`?" in done.stderr


@pytest.mark.promise("edge.bounded-flows")
def test_check_says_that_a_budget_in_the_process_counts_payloads_only(
    manifest: Path, tmp_path: Path
) -> None:
    (tmp_path / "component.py").write_text(IN_PROCESS)
    text = manifest.read_text().split("[security")[0].replace(str(GUEST), "component.py")
    text = text.replace('capabilities = ["?random:crypto", "filesystem:read:data"]', "")
    manifest.write_text(text.replace('"part" }', '"part", max_memory = "1MiB" }'))

    done = torvyn("check", cwd=manifest.parent)

    assert done.returncode == 0
    assert UNCOUNTED in done.stderr + done.stdout
    assert 'hint: `isolation = "wasm"` bounds all of its memory' in done.stderr + done.stdout
    # A built-in component limits what it keeps itself, and a guest is limited as a whole.
    manifest.write_text(text.replace('"in.txt" }', '"in.txt" }, max_memory = "1MiB"'))
    assert "uncounted" not in torvyn("check", cwd=manifest.parent).stderr
