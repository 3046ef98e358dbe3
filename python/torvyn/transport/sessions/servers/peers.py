"""Which other servers are alive: those that this server has to do with are asked regularly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from torvyn._io.nats import BrokerUnavailable
from torvyn.transport.sessions.servers.control import ALIVE_S, Control, NoAnswer

_EVERY_S: Final = 0.4
_AGAIN_S: Final = 0.05
_MISSES: Final = 2
"""A server that does not answer so often is gone; one that nobody listens for is gone at once."""
_REMEMBER_S: Final = 60.0
"""How long a server counts as gone before it is asked again."""

OnGone = Callable[[], None]


class Peers:
    def __init__(self, control: Control, clock: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._watched: dict[str, set[OnGone]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._clock = clock
        self._gone: dict[str, float] = {}
        """When servers were noticed to be gone. A server that is started again has a new name, and
        one that was only slow is heard of again."""
        control.on_heard = self._on_heard

    def is_gone(self, server: str) -> bool:
        """Whether it was noticed lately to be gone."""
        noticed_s = self._gone.get(server)
        return noticed_s is not None and self._clock() - noticed_s < _REMEMBER_S

    def mark_gone(self, server: str) -> None:
        self._gone = {name: at_s for name, at_s in self._gone.items() if self.is_gone(name)}
        self._gone[server] = self._clock()

    def _on_heard(self, server: str) -> None:
        self._gone.pop(server, None)

    def watch(self, server: str, on_gone: OnGone) -> None:
        """Calls it when the server is gone, once."""
        self._watched.setdefault(server, set()).add(on_gone)
        if server not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[server] = loop.create_task(self._ask(server))

    def unwatch(self, server: str, on_gone: OnGone) -> None:
        waiting = self._watched.get(server, set())
        waiting.discard(on_gone)
        if not waiting and (task := self._tasks.pop(server, None)) is not None:
            self._watched.pop(server, None)
            task.cancel()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _ask(self, server: str) -> None:
        misses = 0
        while misses < _MISSES:
            await asyncio.sleep(_AGAIN_S if misses else _EVERY_S)
            try:
                await self._control.ask(server, "here", ALIVE_S)
                misses = 0
            except NoAnswer as error:
                if not self._control.is_settling:
                    misses += _MISSES if error.is_certain else 1
            except BrokerUnavailable:
                misses = 0
        self.mark_gone(server)
        self._tasks.pop(server, None)
        for on_gone in self._watched.pop(server, set()):
            on_gone()
