"""Runners of stages that do not run inside a turn: blocking code on a thread, coroutines on a loop.

A runner takes tasks from its native port and gives results back; it never touches a queue. It owns
its component from `init` to `teardown`: both are called where the component's other methods are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from torvyn._native import NodeHandle, Port
from torvyn.contract import Component, End, Signal
from torvyn.contract.probe import attach, class_name, has, iterator_of
from torvyn.contract.roles import METHODS

logger = logging.getLogger("torvyn.reactor")


class OffloadedNode:
    """`Component._node` for a stage with a runner of its own: its pauses and waits are the
    runner's."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self.native: NodeHandle | None = None

    def wake(self) -> None:
        self._ring()

    def resume(self) -> None:
        self._ring()

    def interrupt(self) -> None:
        if self.native is not None:
            self.native.interrupt()

    def note_findings(self, matches: int, exposed_chars: int) -> None:
        if self.native is not None:
            self.native.note_findings(matches, exposed_chars)


class ThreadRunner:
    """Runs a component on a daemon thread, so that one that never returns cannot keep the program
    alive."""

    def __init__(
        self, component: Component, role: str, ports: tuple[str, ...], config: str
    ) -> None:
        self.component = component
        self.role = role
        self.port = Port(role, list(ports))
        self.config = config
        self.init_error: BaseException | None = None
        self.teardown_error: BaseException | None = None
        self.ready = threading.Event()
        self._go = threading.Event()
        self._runs = False
        self._leave = threading.Event()
        self._rung = threading.Event()
        self._resting = False
        self._thread = threading.Thread(
            target=self._run, name=f"torvyn-{class_name(component)}", daemon=True
        )
        self.node = OffloadedNode(self._rung.set)
        attach(component, self.node)

    @property
    def is_idle(self) -> bool:
        """Whether nothing moves here until the reactor or the component says so. From any
        thread."""
        return self.port.idle or (self._resting and not self._rung.is_set())

    @property
    def is_started(self) -> bool:
        return self._thread.ident is not None

    def start(self, timeout_s: float | None) -> bool:
        """Starts the thread and waits for `init`. False when it takes too long, or comes too
        late."""
        if self._leave.is_set():
            return False
        self._thread.start()
        return self.ready.wait(timeout_s)

    def go(self) -> None:
        """The flow runs: work may begin."""
        self._runs = True
        self._go.set()

    def stop(self, timeout_s: float) -> bool:
        """Tears down and waits for the thread to end. False: it will not, and is abandoned."""
        self.let_go()
        if getattr(self.component, "may_be_left", False):
            return True
        if threading.current_thread() is self._thread:
            # The component itself has driven the flow to its end: its thread ends when it returns.
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def let_go(self) -> None:
        """The thread may tear down and end; nobody waits for it."""
        self._leave.set()
        self._go.set()
        self._rung.set()

    def _rest(self, seconds: float | None = None) -> None:
        """Until the component asks to go on, or for so long."""
        self._resting = True
        self._rung.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
        self._resting = False
        self._rung.clear()

    def _run(self) -> None:
        try:
            self.component.init(self.config)
        except BaseException as error:
            self.init_error = error
            self.ready.set()
            return
        self.ready.set()
        self._go.wait()
        try:
            if self._runs:
                self._work()
        except BaseException as error:
            # Outside of a call that is answered: a notice, `iter()`, a stream. Unsaid, the flow
            # would wait for ever.
            if self.port.stopped:
                raise
            self.port.fail_last(error)
        finally:
            # Teardown goes from the last stage to the first: each waits for its turn.
            self._leave.wait()
            try:
                self.component.teardown()
            except BaseException as error:
                self.teardown_error = error

    def _work(self) -> None:
        if self.role == "source":
            self._work_as_source()
        elif hasattr(self.component, "stream_function"):
            self._work_as_stream()
        else:
            self._work_on_elements()

    def _work_on_elements(self) -> None:
        method = getattr(self.component, METHODS[self.role])
        while self.port.wait():
            wanted = True
            for kind, value in self.port.take():
                if kind == "element":
                    wanted = wanted and self._answer(method, value)
                elif kind in ("flush", "complete"):
                    self._finish(kind, value)
                if self.port.stopped:
                    return

    def _answer(self, method: Callable[[Any], Any], element: Any) -> bool:
        """False: an interrupt has dropped the others that were taken with this one."""
        try:
            result = method(element)
            if self.role == "sink" and result is Signal.PAUSE:
                self._rest()
                result = None
            elif self.role == "processor" and hasattr(type(result), "__next__"):
                if not self._emit_all(result):
                    return False
                result = None
        except BaseException as error:
            return self.port.fail(error)
        return self.port.answer(result)

    def _emit_all(self, items: Iterator[Any]) -> bool:
        """One by one, as there is room behind. False: the flow wants no more."""
        try:
            for item in items:
                if item is None:
                    continue
                if not (self._may_emit() and self.port.emit(item)):
                    return False
        finally:
            if hasattr(items, "close"):
                items.close()
        return True

    def _may_emit(self) -> bool:
        """Waits for credit. False: the flow wants no more."""
        while self.port.credit() == 0:
            if not self.port.wait(True):
                return False
        return True

    def _finish(self, kind: str, value: Any) -> None:
        result: Any
        try:
            if kind == "complete":
                result = self.component.complete(value)  # type: ignore[attr-defined]
            else:
                result = getattr(self.component, "flush", lambda: None)()
                if hasattr(type(result), "__next__"):
                    result = list(result)
        except BaseException as error:
            self.port.fail_last(error)
        else:
            self.port.finish(result)

    def _work_as_source(self) -> None:
        component: Any = self.component
        items = iterator_of(component) if has(component, "__iter__") else None
        pull = component.pull if items is None else items.__next__
        while self.port.wait(True):
            # The flow says READY before it grants: what is due is told before the source is asked.
            granted = self.port.credit() > 0
            self._tell_pressure()
            if self.port.credit() == 0 or not granted:
                continue
            try:
                item = pull()
            except StopIteration as stop:
                item = stop.value if isinstance(stop.value, End) else None
            except BaseException as error:
                self.port.fail(error, False)
                continue
            wait_s = self.port.pulled(item)
            if wait_s is not None:
                self._rest(None if wait_s < 0 else wait_s)
            if item is None or isinstance(item, End):
                break
        if items is not None and hasattr(items, "close"):
            items.close()

    def _tell_pressure(self) -> None:
        for kind, signal in self.port.take():
            if kind == "pressure":
                try:
                    self.component.notify_backpressure(signal)  # type: ignore[attr-defined]
                except Exception:
                    # A notice has no answer: its failure is told, and the stream goes on.
                    logger.warning("a source failed in `notify_backpressure`", exc_info=True)

    def _work_as_stream(self) -> None:
        stream = self.component.stream_function(self._stream())  # type: ignore[attr-defined]
        try:
            for item in stream:
                if not (self._may_emit() and self.port.emit(item)):
                    return
        except BaseException as error:
            self.port.fail_last(error)
        else:
            self.port.finish(None)
        finally:
            stream.close()

    def _stream(self) -> Iterator[Any]:
        while self.port.wait():
            wanted = True
            for kind, value in self.port.take():
                if kind == "flush":
                    return
                if kind == "element" and wanted:
                    yield value
                    wanted = self.port.answer(None)
