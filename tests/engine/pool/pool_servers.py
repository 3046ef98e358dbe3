"""Members of a pool for tests: `torvyn serve` processes, each with an answer of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

MANIFEST = """
[torvyn]
name = "member"
version = "0.1.0"
contract_version = "0.1.0"

[serve]
shutdown_grace = "5s"

[flow.chat.nodes.model]
component = "engine:scripted"
config = {{ text = "{text}", delay = "{delay}", first_delay = "{first_delay}" }}

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "answer"
"""

GATEWAY = """
[torvyn]
name = "gateway"
version = "0.1.0"
contract_version = "0.1.0"

[flow.chat.nodes.model]
component = "engine:pool"
config = CONFIG

[flow.chat.nodes.policy]
component = "blocklist"
config = { words = "secret", mode = "stream", action = "replace" }

[flow.chat.nodes.answer]
component = "response"

[[flow.chat.edges]]
from = "model"
to = "policy"

[[flow.chat.edges]]
from = "policy"
to = "answer"
"""


def text_of(number: int, words: int) -> str:
    """Every word names the member, so that a joined answer would show."""
    return " ".join(f"m{number}w{at}" for at in range(words))


class Serving:
    """`torvyn serve`, which can be killed and started again at the same address."""

    def __init__(self, folder: Path, manifest: str) -> None:
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        (self._folder / "Torvyn.toml").write_text(manifest)
        self._port = free_port()
        self.origin = f"http://127.0.0.1:{self._port}"
        self.url = f"{self.origin}/v1"
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        command = [sys.executable, "-m", "torvyn", "serve", "--format", "json"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self._port)],
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline())["event"] == "serving"

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """As a supervisor would: running answers may end."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()


class Server(Serving):
    """A member."""

    def __init__(self, folder: Path, number: int, words: int, delay: str, first_delay: str) -> None:
        self.number = number
        self.text = text_of(number, words)
        text = MANIFEST.format(text=self.text, delay=delay, first_delay=first_delay)
        super().__init__(folder / f"member{number}", text)


class Gateway(Serving):
    """A server with a pool over members, and a guard."""

    def __init__(self, folder: Path, members: Sequence[Server], **options: object) -> None:
        config = {"model": "chat", "members": [each.url for each in members], **options}
        pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in config.items())
        super().__init__(folder, GATEWAY.replace("CONFIG", f"{{ {pairs} }}"))


@contextmanager
def servers(
    folder: Path, count: int, *, words: int = 20, delay: str = "5ms", first_delay: str = "0ms"
) -> Iterator[list[Server]]:
    """Members 0 to count - 1, running; gone when the block is left."""
    with ExitStack() as stack:
        made = [Server(folder, number, words, delay, first_delay) for number in range(count)]
        for server in made:
            stack.callback(server.kill)
            server.begin()
        for server in made:
            server.wait_ready()
        yield made


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def member_of(text: str) -> int:
    """Which member has written a text; fails if more than one has."""
    numbers = {word[1 : word.index("w")] for word in text.split()}
    assert len(numbers) == 1, f"the text is of {sorted(numbers)}: {text}"
    return int(numbers.pop())
