"""An application with API keys in this process, with a clock that the test drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asgi_client import Client

from torvyn.engine import Engine, Service
from torvyn.serve import Application, ServerSettings
from torvyn.testing import Clock
from torvyn.transport.access.key_file import edit

PROMPT_BODY = {"prompt": "Hi"}


class Keyed:
    """`keyed.add("web", max_streams=1)`, then `keyed.ask("web")`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"
        self.clock = Clock()
        self.keys: dict[str, str] = {}
        self.add("first")

    def add(self, name: str, **limits: Any) -> str:
        with edit(self.path) as file:
            self.keys[name] = file.add(name, **limits)
        return self.keys[name]

    def revoke(self, name: str) -> None:
        with edit(self.path) as file:
            file.revoke(name)

    def serve(self, engine: Engine, **settings: Any) -> Application:
        """Answers begin at once, so that a client has the id of one that waits."""
        settings = {"first_byte_wait_s": 0.0, **settings}
        server_settings = ServerSettings(keys=str(self.path), **settings)
        services = {"chat": Service("chat", engine)}
        self.application = Application(services, server_settings, clock=self.clock)
        return self.application

    def ask(self, name: str, path: str = "/v1/streams", body: Any = None, **more: Any) -> Client:
        headers = {"authorization": f"Bearer {self.keys[name]}"}
        body = PROMPT_BODY if body is None else body
        return Client(self.application, path, body, headers=headers, **more)

    def look(self) -> None:
        """What a timer does every second."""
        self.clock.advance(2)
        self.application.running._check_keys()
