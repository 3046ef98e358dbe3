"""A gateway that starts while nothing outside can be reached, as a whole command."""

import contextlib
import json
import signal
import subprocess
import sys

from mosquitto import free_port, needs_mosquitto, running_broker

MANIFEST = """
[torvyn]
name = "gateway"
version = "0.1.0"
contract_version = "0.1.0"

[flow.main.nodes.sensors]
component = "mqtt"
config.url = "mqtt://127.0.0.1:{broker}"
config.topics = ["t"]
config.user = "me"
config.password = "${{SECRET}}"

[flow.main.nodes.uplink]
component = "http"
config.url = "http://127.0.0.1:{server}/"
config.headers.Authorization = "Bearer ${{SECRET}}"

[[flow.main.edges]]
from = "sensors"
to = "uplink"
"""


@contextlib.contextmanager
def start(folder, broker, server):
    """The process, which ends with the block even if the test has failed."""
    (folder / "Torvyn.toml").write_text(MANIFEST.format(broker=broker, server=server))
    command = [sys.executable, "-m", "torvyn", "run", "--stats", "--format", "json"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"SECRET": "hunter2-secret", "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stop(process):
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 143
    assert "hunter2" not in output + errors
    return json.loads(output.splitlines()[-1])["nodes"], errors


def test_boots_with_no_network_12_the_command_runs_and_says_what_is_away(tmp_path):
    with start(tmp_path, free_port(), free_port()) as process:
        for line in process.stderr:
            if "connection refused" in line:
                break
        nodes, _ = stop(process)

    sensors = nodes["sensors"]["connection"]
    assert sensors["reason"] == "connection refused"
    assert (sensors["connects"], nodes["uplink"]["connection"]["connects"]) == (0, 0)


@needs_mosquitto
def test_rejected_credentials_are_shown_without_the_password(tmp_path):
    with (
        running_broker(tmp_path, "allow_anonymous false") as broker,
        start(tmp_path, broker.port, free_port()) as process,
    ):
        for line in process.stderr:
            if "Not authorized" in line:
                break
        nodes, _ = stop(process)

    assert "Not authorized" in nodes["sensors"]["connection"]["reason"]
