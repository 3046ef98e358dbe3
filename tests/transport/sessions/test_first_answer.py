"""A server loads what answers need before its first one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from serve_process import MANIFEST

PROGRAM = """
import asyncio, sys

sys.path.insert(0, sys.argv[1])
from asgi_client import Client
import torvyn
from torvyn.serve import ServerSettings, app
from torvyn.transport.services import of_plans


async def main():
    plans = {"chat": torvyn.load("Torvyn.toml").plan("chat")}
    application = app(of_plans(plans), ServerSettings())
    await application.start()
    loaded = set(sys.modules)
    client = await Client(application, body={"prompt": "Hi", "stateful": True})
    assert client.status == 200, client.body
    print(*sorted(name for name in set(sys.modules) - loaded if name.startswith("torvyn")))


asyncio.run(main())
"""


def test_the_first_answer_of_a_server_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "Torvyn.toml").write_text(MANIFEST)
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[1])]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
