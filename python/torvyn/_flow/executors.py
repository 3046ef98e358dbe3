"""The executors of stages that run outside the turns, and the hosts that they run on.

A host says where an executor runs and how it waits: it blocks a thread, awaits on a loop, or
suspends. An executor calls its component once per element, or once for all elements that wait; it
pulls a source through `pull`, `pull_batch`, `__iter__` or `__aiter__`, against credit; or it runs a
generator over the whole input, which may read ahead of its output.

If a call for a batch raises, its elements are given to the component one by one: then the error
policy applies to the element that is at fault. In a stream an element is current from its read to
the next read. A failure in between belongs to that element, and the function starts again with the
next one.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from types import AsyncGeneratorType, GeneratorType, NoneType
from typing import Any, Final, Protocol

from torvyn._contract.element import Element, Output
from torvyn._contract.enums import Role, TaskKind
from torvyn._contract.inspection import async_iterator_of, bound_method, has_attribute, iterator_of
from torvyn._contract.roles import (
    BATCH_METHODS,
    METHODS,
    Component,
    batch_method_of,
    counts_held_elements,
    defines_method,
)
from torvyn._contract.signals import End, Signal, Verdict
from torvyn._flow.cpu_throttle import CpuThrottle
from torvyn._flow.failures import log_acknowledge_failure
from torvyn._flow.lifecycle_driver import run_blocking
from torvyn._flow.lockstep import in_lockstep
from torvyn._native import Batch, Port
from torvyn._native import Element as NativeElement
from torvyn.errors import ContractError, Fatal


class Host(Protocol):
    is_async: bool
    """Whether the component's results may be awaited."""
    is_stepped: bool
    """Whether the executor is suspended before each call of the component."""

    throttle: CpuThrottle | None
    """Delays a source that uses more than its share of the CPU."""

    async def wait_for_work(self, needs_credit: bool) -> None:
        """Waits until the port may have tasks or, with `needs_credit`, credit."""

    async def sleep(self, seconds: float | None) -> None:
        """Waits until the component resumes or wakes the stage, or for so many seconds."""

    async def step(self) -> None:
        """Suspends before a call; only for hosts that are stepped."""

    def begin_call(self) -> None:
        """Starts the time limit of an awaited call. It ends with the next call, a wait, or
        `end_call`."""

    def end_call(self) -> None:
        """Ends the time limit."""

    def failure_of(self, error: BaseException) -> BaseException:
        """The error to report for an exception. Raises the exception if the host ended the
        stage."""


Task = tuple[TaskKind, Any]

PLAIN: Final = frozenset(
    {NoneType, bool, str, bytes, list, tuple, Output, Element, NativeElement, Verdict}
)
"""Results that the port accepts as they are. Looked up by type, once per element."""

_GENERATORS: Final = frozenset({GeneratorType, AsyncGeneratorType})


def is_awaitable(value: Any) -> bool:
    """`inspect.isawaitable` without reading `__class__`, which may be the user's code."""
    if type(value) is GeneratorType:
        return inspect.isawaitable(value)
    return hasattr(type(value), "__await__")


class StageExecutor:
    """Calls one component outside the turns."""

    takes_end = False
    """Whether the component's items may end with an `End`, which is then kept in `end`."""
    end: End | None = None

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        self.component: Any = component
        self.role = role
        self.port = port
        self.host = host
        counts = counts_held_elements(component, role)
        self.held_elements = bound_method(component, "held_elements") if counts else None

    async def run(self) -> None:
        """Runs until the flow stops or the component has ended."""
        try:
            await self._run()
        except GeneratorExit:
            raise
        except BaseException as error:
            # Raised outside a call that has an answer, such as `iter()` or the clean-up of a
            # generator. Without a report the flow would wait forever.
            failure = self.host.failure_of(error)
            if self.port.stopped:
                raise
            self.port.fail_last(failure)

    async def _run(self) -> None:
        raise NotImplementedError

    async def tasks(self) -> list[Task]:
        """Waits for tasks; an empty list means that the flow has stopped."""
        while not (tasks := self.port.take()) and not self.port.stopped:
            await self.host.wait_for_work(False)
        return tasks

    def held(self) -> int | None:
        """How many elements an aggregator holds; None if it does not say."""
        if self.held_elements is None:
            return None
        try:
            return int(self.held_elements())
        except Exception:
            # A component that cannot say holds everything that it took.
            return sys.maxsize

    async def credit(self) -> bool:
        """Waits until an element may be emitted. False: the flow has stopped."""
        while not self.port.credit():
            if self.port.stopped:
                return False
            await self.host.wait_for_work(True)
        return True

    def fail(self, error: BaseException, consumed: bool = True) -> bool:
        return self.port.fail(self.host.failure_of(error), consumed)

    def fail_if_open(self, error: GeneratorExit) -> None:
        """Reports a GeneratorExit that the component raised itself. Nothing closes the coroutine
        while the flow runs; once it is closed, it must not wait again."""
        if not self.port.stopped:
            self.port.fail(error)

    async def resolve(self, value: Any) -> Any:
        """The component's result, awaited if it is awaitable."""
        return await value if self.is_awaitable(value) else value

    def is_awaitable(self, value: Any) -> bool:
        kind = type(value)
        if not self.host.is_async or kind in PLAIN or kind in _GENERATORS:
            return False
        return is_awaitable(value)

    def is_generated(self, value: Any) -> bool:
        kind = type(value)
        if kind in _GENERATORS:
            return self.host.is_async or kind is GeneratorType
        return hasattr(kind, "__next__") or (self.host.is_async and hasattr(kind, "__anext__"))

    def emit_all(self, items: Any) -> Coroutine[Any, Any, bool]:
        """Emits the items one by one against credit and skips None. False: the flow has
        stopped."""
        return (
            self._emit_async(items) if hasattr(type(items), "__anext__") else self._emit_sync(items)
        )

    async def _emit_sync(self, items: Any) -> bool:
        port, is_stepped, is_exhausted = self.port, self.host.is_stepped, False
        try:
            for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if is_stepped:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "close"):
                items.close()
        return True

    async def _emit_async(self, items: Any) -> bool:
        port, is_stepped, is_exhausted = self.port, self.host.is_stepped, False
        try:
            async for item in items:
                if item is None:
                    continue
                if type(item) is End and self.takes_end:
                    self.end = item
                    return True
                if is_stepped:
                    await self.host.step()
                if not (port.credit() or await self.credit()) or not port.emit(item):
                    return False
            is_exhausted = True
        finally:
            if not is_exhausted and hasattr(items, "aclose"):
                await items.aclose()
        return True


_ELEMENT: Final = TaskKind.ELEMENT
STOPPED: Final = object()
"""In place of an answer: the flow stopped while the answer was being emitted."""


class ElementExecutor(StageExecutor):
    async def _run(self) -> None:
        method = getattr(self.component, METHODS[self.role])
        host, answer = self.host, self.port.answer
        counts_held = self.held_elements is not None
        is_coroutine = host.is_async and inspect.iscoroutinefunction(method)
        begin_call, is_stepped = host.begin_call, host.is_stepped
        while tasks := await self.tasks():
            is_wanted = True
            for kind, value in tasks:
                if kind is not _ELEMENT:
                    await self.finish(kind, value)
                    continue
                if not is_wanted:
                    continue
                if is_stepped:
                    await host.step()
                try:
                    result = method(value)
                    if is_coroutine:
                        begin_call()
                        result = await result
                    if type(result) not in PLAIN:
                        result = await self.expand(result)
                        if result is STOPPED:
                            return
                        if result is Signal.PAUSE and self.role == Role.SINK:
                            is_wanted = await self.pause()
                            continue
                except GeneratorExit as error:
                    self.fail_if_open(error)
                    raise
                except BaseException as error:
                    is_wanted = self.fail(error)
                else:
                    # False: an interrupt has dropped the other elements of this batch.
                    is_wanted = answer(result, self.held() if counts_held else None)

    async def expand(self, result: Any) -> Any:
        """Awaits a result, or emits it item by item; returns the answer."""
        host = self.host
        if self.is_awaitable(result):
            host.begin_call()
            result = await result
        if self.role == Role.PROCESSOR and self.is_generated(result):
            return None if await self.emit_all(result) else STOPPED
        return result

    async def pause(self, count: int = 0) -> bool:
        """Accepts and counts the element, or a batch, then waits until the sink resumes."""
        port = self.port
        is_wanted = port.answer_batch(Signal.PAUSE, count) if count else port.answer(Signal.PAUSE)
        await self.host.sleep(None)
        return self.port.resumed() and is_wanted

    async def finish(self, kind: TaskKind, value: Any) -> None:
        if kind not in (TaskKind.FLUSH, TaskKind.COMPLETE):
            return
        self.host.end_call()
        if self.host.is_stepped:
            await self.host.step()
        try:
            if kind is TaskKind.COMPLETE:
                result = await self.resolve(self.component.complete(value))
            else:
                result = await self._flush()
        except GeneratorExit:
            raise
        except BaseException as error:
            self.port.fail_last(self.host.failure_of(error))
        else:
            self.port.finish(result)

    async def _flush(self) -> Any:
        flush = getattr(self.component, "flush", None)
        result: Any = None if flush is None else await self.resolve(flush())
        if not self.is_generated(result):
            return result
        if hasattr(result, "__anext__"):
            return [item async for item in result if item is not None]
        return [item for item in result if item is not None]


class BatchExecutor(ElementExecutor):
    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        super().__init__(component, role, port, host)
        self._singles = 0
        """A batch has failed: so many elements are given to the component one by one."""
        port.take_batches()

    async def _run(self) -> None:
        while tasks := await self.tasks():
            elements = [value for kind, value in tasks if kind is TaskKind.ELEMENT]
            if elements and not await self._take(elements):
                return
            for kind, value in tasks:
                if kind is not TaskKind.ELEMENT:
                    await self.finish(kind, value)

    async def _take(self, elements: list[Any]) -> bool:
        """False: the flow has stopped while an answer was being emitted."""
        if len(elements) > 1 and not self._singles:
            is_settled, error = await self._call_batch(elements)
            if error is not None and _stops_the_flow(error):
                self.port.fail(error)
                return True
            if is_settled:
                return True
            self._singles = len(elements)
        for element in elements:
            is_wanted = await self._call_single(element)
            if is_wanted is None:
                return False
            if not is_wanted:
                break
        return True

    async def _call_batch(self, elements: list[Any]) -> tuple[bool, BaseException | None]:
        """Whether the elements are settled, or the exception of the call."""
        try:
            result = await self._call(BATCH_METHODS[self.role], Batch(elements))
        except GeneratorExit as error:
            self.fail_if_open(error)
            raise
        except BaseException as error:
            return False, self.host.failure_of(error)
        if result is Signal.PAUSE and self.role == Role.SINK:
            await self.pause(len(elements))
        else:
            self.port.answer_batch(result, len(elements), self.held())
        return True, None

    async def _call_single(self, element: Any) -> bool | None:
        """Whether the next element is wanted. None: the flow has stopped."""
        self._singles = max(0, self._singles - 1)
        if not defines_method(self.component, self.role, METHODS[self.role]):
            return await self._call_alone(element)
        try:
            result = await self.expand(await self._call(METHODS[self.role], element))
            if result is STOPPED:
                return None
            if result is Signal.PAUSE and self.role == Role.SINK:
                return await self.pause()
        except GeneratorExit as error:
            self.fail_if_open(error)
            raise
        except BaseException as error:
            return self.fail(error)
        return self.port.answer(result, self.held())

    async def _call_alone(self, element: Any) -> bool:
        """A batch of one, for a component that has only the batch method."""
        is_settled, error = await self._call_batch([element])
        if error is not None:
            return self.port.fail(error)
        return is_settled

    async def _call(self, name: str, argument: Any) -> Any:
        if self.host.is_stepped:
            await self.host.step()
        result = getattr(self.component, name)(argument)
        if not self.is_awaitable(result):
            return result
        self.host.begin_call()
        return await result


def _stops_the_flow(error: BaseException) -> bool:
    return isinstance(error, (Fatal, ContractError)) or not isinstance(error, Exception)


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


class StreamExecutor(StageExecutor):
    takes_end = True

    def __init__(self, component: Component, role: str, port: Port, host: Host) -> None:
        super().__init__(component, role, port, host)
        self._tasks: deque[Task] = deque()
        """Taken from the port and not read yet; survives a restart of the function."""
        self._is_answer_due = False
        self._has_ended = False

    async def _run(self) -> None:
        while await self._run_once():
            # The function starts again only when there is something to read.
            if not self._tasks and not await self._take_more():
                return

    async def _run_once(self) -> bool:
        """Runs the function over the rest of the input. True: it failed on an element."""
        stream = self._stream()
        try:
            if not await self.emit_all(stream):
                return False
        except GeneratorExit:
            raise
        except BaseException as error:
            return self._fail(self.host.failure_of(error))
        if self._is_answer_due:
            # It returned before its input ended: its last element is done.
            self._is_answer_due = False
            self.port.answer(None)
        self.port.finish(self.end)
        return False

    def _stream(self) -> Any:
        function = self.component.stream_function
        if self.host.is_async:
            return function(self._read_async())
        if self.host.is_stepped:
            return in_lockstep(function, self._read_async())
        return function(self._read())

    def _fail(self, failure: BaseException) -> bool:
        if not self._is_answer_due:
            self.port.fail_last(failure)
            return False
        self._is_answer_due = False
        if not self.port.fail(failure):
            self._drop_elements()
        return not self.port.stopped

    async def _take_more(self) -> bool:
        self._tasks.extend(tasks := await self.tasks())
        return bool(tasks)

    def _read(self) -> Iterator[Any]:
        while not self._has_ended and (self._tasks or run_blocking(self._take_more())):
            yield from self._read_tasks()

    async def _read_async(self) -> AsyncIterator[Any]:
        while not self._has_ended and (self._tasks or await self._take_more()):
            for element in self._read_tasks():
                if self.host.is_stepped:
                    await self.host.step()
                yield element

    def _read_tasks(self) -> Iterator[Any]:
        """The elements of the tasks; each is answered when the next one is read."""
        while self._tasks and not self._has_ended:
            kind, value = self._tasks.popleft()
            if kind is TaskKind.FLUSH:
                self._has_ended = True
                if has_attribute(self.component, "input_end"):
                    self.component.input_end = value
            if kind is not TaskKind.ELEMENT:
                continue
            self._is_answer_due = True
            yield value
            self._is_answer_due = False
            if not self.port.answer(None):
                self._drop_elements()

    def _drop_elements(self) -> None:
        """An interrupt has dropped the elements that were taken with the last answered one."""
        self._tasks = deque(task for task in self._tasks if task[0] is not TaskKind.ELEMENT)
