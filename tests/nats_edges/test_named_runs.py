"""`torvyn run --run NAME`: a segment that has ended in a run is not run again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from nats_server import NatsServer

MANIFEST = """
[torvyn]
name = "nightly"
version = "0.1.0"
contract_version = "0.1.0"

[flow.main.nodes.read]
component = "lines"
config = { path = "input.txt" }

[flow.main.nodes.write]
component = "file"
config = { path = "output.txt" }

[[flow.main.edges]]
from = "read"
to = "write"
carrier = "nats"
"""


def run(
    folder: Path, server: NatsServer, segment: str, name: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torvyn", "run", "--segment", segment, "--run", name]
    command += ["--nats", server.url]
    options: Any = {"cwd": folder, "capture_output": True, "text": True, "timeout": 50}
    return subprocess.run(command, check=False, **options)


def test_a_segment_that_has_ended_in_the_run_succeeds_at_once(
    tmp_path: Path, server: NatsServer
) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    (tmp_path / "input.txt").write_text("one\ntwo\n")
    for segment in ("read", "write"):
        done = run(tmp_path, server, segment, "night-1")
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "output.txt").read_text() == "one\ntwo\n"

    for segment in ("read", "write"):
        again = run(tmp_path, server, segment, "night-1")
        assert again.returncode == 0, again.stderr
        assert "has ended in the run `night-1`" in again.stderr
    assert (tmp_path / "output.txt").read_text() == "one\ntwo\n"


def test_another_name_is_another_run(tmp_path: Path, server: NatsServer) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    for name in ("night-1", "night-2"):
        (tmp_path / "input.txt").write_text(f"{name}\n")
        for segment in ("read", "write"):
            done = run(tmp_path, server, segment, name)
            assert done.returncode == 0, done.stderr
        assert (tmp_path / "output.txt").read_text().splitlines()[-1] == name


def test_a_name_that_a_broker_cannot_carry_is_refused(tmp_path: Path, server: NatsServer) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    (tmp_path / "input.txt").write_text("")

    done = run(tmp_path, server, "read", "a.b")

    assert done.returncode == 2
    assert "`a.b` cannot be the name of a run" in done.stderr
