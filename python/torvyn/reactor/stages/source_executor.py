"""Pulls a source through `pull`, `pull_batch`, `__iter__` or `__aiter__`, against credit."""

from __future__ import annotations

import inspect
import logging
from typing import Any, Final

from torvyn._contract.enums import TaskKind
from torvyn._contract.inspection import async_iterator_of, has_attribute, iterator_of
from torvyn._contract.roles import batch_method_of
from torvyn._contract.signals import End, Signal
from torvyn.errors import ContractError
from torvyn.reactor.run.error_log import log_acknowledge_failure
from torvyn.reactor.stages.executor import StageExecutor

logger = logging.getLogger("torvyn.reactor")

_NEVER: Final[tuple[type[BaseException], ...]] = ()


class SourceExecutor(StageExecutor):
    async def _run(self) -> None:
        component = self.component
        if self.host.is_async and has_attribute(component, "__aiter__"):
            items = async_iterator_of(component)
            await self._pull_all(items.__anext__, items, (StopAsyncIteration,))
        elif has_attribute(component, "__iter__"):
            items = iterator_of(component)
            await self._pull_all(items.__next__, items, (StopIteration,))
        elif batch_method_of(component, self.role) is not None:
            await self._pull_batches()
        else:
            # Only an iterator ends by raising: from `pull`, StopIteration is an ordinary error.
            await self._pull_all(component.pull, None, _NEVER)

    async def _pull_all(self, pull: Any, items: Any, ends: tuple[type[BaseException], ...]) -> None:
        host, port = self.host, self.port
        is_awaited = host.is_async and (
            hasattr(items, "__anext__") or inspect.iscoroutinefunction(pull)
        )
        position = 0
        try:
            while await self._may_pull():
                if await self._has_waited():
                    continue
                try:
                    item = pull()
                    if is_awaited:
                        item = await item
                    elif host.is_async:
                        item = await self.resolve(item)
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
                    self.fail(_none_item(position), False)
                    continue
                position += 1
                if not await self._send(item):
                    return
        finally:
            await self._close(items)

    async def _pull_batches(self) -> None:
        while await self._may_pull():
            if await self._has_waited():
                continue
            most = self.port.credit()
            try:
                items = await self.resolve(self.component.pull_batch(most))
            except GeneratorExit:
                raise
            except BaseException as error:
                self.fail(error, False)
                continue
            await self._sleep(self.port.pulled_batch(items, most))
            if items is None or isinstance(items, End):
                return

    async def _has_waited(self) -> bool:
        """Whether the source was delayed, so that the flow may want no more of it. Suspends before
        the call if the host is stepped."""
        host = self.host
        if host.throttle is not None and (delay_s := host.throttle.delay_s()):
            await host.sleep(delay_s)
            return True
        if host.is_stepped:
            await host.step()
        return False

    async def _send(self, item: Any) -> bool:
        """False: the item was the end."""
        await self._sleep(self.port.pulled(item))
        return item is not None and not isinstance(item, End)

    async def _sleep(self, wait_s: float | None) -> None:
        """Waits after `PENDING`, as the port says."""
        if wait_s is not None:
            await self.host.sleep(None if wait_s < 0 else wait_s)

    async def _close(self, items: Any) -> None:
        close = getattr(items, "aclose" if hasattr(items, "__anext__") else "close", None)
        if close is not None:
            await self.resolve(close())

    async def _may_pull(self) -> bool:
        """Waits for credit, and tells the source about back-pressure before the next pull."""
        port = self.port
        while not port.stopped:
            # The flow sends READY before it grants credit.
            has_credit = port.credit() > 0
            if not self.host.is_async and (count := port.take_settled()):
                self._acknowledge(count)
            for kind, signal in port.take():
                if kind is TaskKind.PRESSURE:
                    await self._notify_backpressure(signal)
            if not port.credit():
                await self.host.wait_for_work(True)
            elif has_credit:
                return True
        return False

    def _acknowledge(self, count: int) -> None:
        try:
            self.component.acknowledge(count)
        except Exception as error:
            log_acknowledge_failure(error)

    async def _notify_backpressure(self, signal: Signal) -> None:
        try:
            await self.resolve(self.component.notify_backpressure(signal))
        except Exception:
            # A notification has no answer: log its failure and go on.
            logger.warning("a source failed in `notify_backpressure`", exc_info=True)


def _none_item(position: int) -> ContractError:
    message = f"its iterator yielded None as item {position}; None is not an element"
    return ContractError("contract.wrong-result", message)
