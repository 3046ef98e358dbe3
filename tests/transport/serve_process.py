"""`torvyn serve` in its own process, stopped by the test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MANIFEST = """
[torvyn]
name = "guarded"
version = "0.1.0"
contract_version = "0.1.0"

[serve]
port = 0
shutdown_grace = "400ms"

[serve.routes]
"org/model-1.5" = "chat"

[flow.chat.nodes.model]
component = "engine:scripted"
config = { text = "one secret two", delay = "10ms" }

[flow.chat.nodes.policy]
component = "blocklist"
config = { words = "secret", mode = "stream", action = "replace", replacement = "***" }

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "policy"

[[flow.chat.edges]]
from = "policy"
to = "answer"
"""


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[Any, str]]:
    """The command, and the address it says."""
    command = [sys.executable, "-m", "torvyn", "serve", "--format", "json", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        process.said = json.loads(line)  # type: ignore[attr-defined]
        yield process, process.said["url"]  # type: ignore[attr-defined]
    finally:
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
