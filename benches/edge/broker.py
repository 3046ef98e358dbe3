"""Debian's mosquitto on a free port of the loopback interface, with unlimited queues."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benches.server_process import free_port, until_open

INSTALL: Final = "mosquitto is not installed: apt-get install mosquitto"
CONFIG: Final = """\
listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
log_dest none
"""


def program() -> str | None:
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def version() -> str:
    shown = subprocess.run([program() or "", "-h"], capture_output=True, text=True, check=False)
    return " ".join(shown.stdout.split()[:3])


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """The port of a broker that runs inside the block."""
    port = free_port()
    config = folder / "mosquitto.conf"
    config.write_text(CONFIG.format(port=port))
    process = subprocess.Popen([program() or "mosquitto", "-c", str(config)])
    try:
        until_open(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(10)
