"""Sources: by `pull`, `__iter__` or `__aiter__`, against credit."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Final

from torvyn.contract import End, Signal
from torvyn.contract.inspection import async_iterator_of, has_attribute, iterator_of
from torvyn.errors import ContractError
from torvyn.reactor.stages.procedure import Procedure

logger = logging.getLogger("torvyn.reactor")

_NEVER: Final[tuple[type[BaseException], ...]] = ()


class SourceProcedure(Procedure):
    async def _work(self) -> None:
        component = self.component
        if self.host.awaits and has_attribute(component, "__aiter__"):
            items = async_iterator_of(component)
            await self._pull_all(items.__anext__, items, (StopAsyncIteration,))
        elif has_attribute(component, "__iter__"):
            items = iterator_of(component)
            await self._pull_all(items.__next__, items, (StopIteration,))
        else:
            # Only an iterator ends by raising: from `pull`, StopIteration is an error like others.
            await self._pull_all(component.pull, None, _NEVER)

    async def _pull_all(self, pull: Any, items: Any, ends: tuple[type[BaseException], ...]) -> None:
        host, port = self.host, self.port
        is_awaited = host.awaits and (
            hasattr(items, "__anext__") or inspect.iscoroutinefunction(pull)
        )
        given = 0
        try:
            while await self._may_pull():
                if host.steps:
                    await host.step()
                try:
                    item = pull()
                    if is_awaited:
                        item = await item
                    elif host.awaits:
                        item = await self.settle(item)
                except ends as stop:
                    end = getattr(stop, "value", None)
                    port.pulled(end if isinstance(end, End) else None)
                    return
                except GeneratorExit:
                    raise
                except BaseException as error:
                    self.fail(error, False)
                    continue
                if item is None and items is not None:
                    self.fail(_none_item(given), False)
                    continue
                given += 1
                if not await self._send(item):
                    return
        finally:
            await self._close(items)

    async def _send(self, item: Any) -> bool:
        """False: that was the end."""
        wait_s = self.port.pulled(item)
        if wait_s is not None:
            await self.host.rest(None if wait_s < 0 else wait_s)
        return item is not None and not isinstance(item, End)

    async def _close(self, items: Any) -> None:
        close = getattr(items, "aclose" if hasattr(items, "__anext__") else "close", None)
        if close is not None:
            await self.settle(close())

    async def _may_pull(self) -> bool:
        """Waits for credit; a source hears of back-pressure before it is asked again."""
        port = self.port
        while not port.stopped:
            # The flow says READY before it grants.
            granted = port.credit() > 0
            for kind, signal in port.take():
                if kind == "pressure":
                    await self._notify_backpressure(signal)
            if not port.credit():
                await self.host.ready(True)
            elif granted:
                return True
        return False

    async def _notify_backpressure(self, signal: Signal) -> None:
        try:
            await self.settle(self.component.notify_backpressure(signal))
        except Exception:
            # A notice has no answer: its failure is logged, and the stream goes on.
            logger.warning("a source failed in `notify_backpressure`", exc_info=True)


def _none_item(position: int) -> ContractError:
    message = f"its iterator yielded None as item {position}; None is not an element"
    return ContractError("contract.wrong-result", message)
