"""Runs coroutines as tests, each on its own event loop; a `conftest.py` imports the hook.

Use `virtual_time` for tests of time limits: nothing sleeps, and a busy machine does not matter.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., Coroutine[Any, Any, None]]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), 30))
    return True


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """When every task waits, the clock jumps to the next timer. Not for tests with threads or
    sockets, which need real time."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        select = self._selector.select

        def jump(timeout_s: float | None) -> Any:
            self._now_s += timeout_s or 0.0
            return select(None if timeout_s is None else 0.0)

        self._selector.select = jump

    def time(self) -> float:
        return self._now_s


def virtual_time(test: Test) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*arguments, **named))

    return run
