"""Clients in whole programs: imports, leftovers, one loop after another."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from asgi_client import Endless
from live_server import served, wait_for

from torvyn.client import AsyncClient
from torvyn.engine import Scripted

FORGETFUL = """
import sys
from torvyn.client import Client
from torvyn._io.background_loop import background_loop

assert "aiohttp" not in sys.modules
background_loop().slow_callback_duration = 30  # the load of the machine does not matter
client = Client(sys.argv[1])
texts = iter(client.stream("Hi", stateful=True).text())
print(next(texts))
"""


def test_a_program_that_forgets_to_close_ends_quietly_and_its_answer_with_it() -> None:
    engine = Endless()
    with served(engine) as server:
        command = [sys.executable, "-X", "dev", "-c", FORGETFUL, server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

        assert (done.returncode, done.stderr) == (0, "")
        wait_for(engine.was_left.is_set)


def test_a_client_can_be_used_on_one_loop_after_another() -> None:
    with served(Scripted("B")) as server:
        client = AsyncClient(server.url)

        async def ask() -> str:
            return (await client.stream("Hi").complete()).text

        assert [asyncio.run(ask()) for _ in range(2)] == ["B", "B"]
