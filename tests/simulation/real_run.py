"""The same scenario on the real reactor: real threads, a real loop, real time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

from scenario import Scenario
from simulator import Outcome, build

from torvyn.errors import TorvynError


class RealWorld:
    """Calls a waiting component back at once, from another thread."""

    def __init__(self) -> None:
        self.components: list[Any] = []

    def sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds / 100)

    def wait_for(self, component: Any, act: str) -> None:
        threading.Timer(0.0005, getattr(component, act)).start()


def run_on_reactor(scenario: Scenario) -> Outcome:
    world = RealWorld()
    flow, sinks = build(scenario, world)
    outputs: list[str] = []
    error: BaseException | None = None
    try:
        if scenario.driver == "iterate":
            outputs.extend(flow.text())
        else:
            flow.run()
    except TorvynError as raised:
        error = raised
    texts = {name: list(sink.texts) for name, sink in sinks.items()}
    outcome = Outcome(flow.state, flow.statistics, {**texts, "": outputs}, error)
    outcome.lives = [
        (component.stage.name, component.inits, component.teardowns)
        for component in world.components
    ]
    return outcome
