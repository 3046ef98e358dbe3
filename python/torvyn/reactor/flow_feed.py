"""Feeding a flow without a source: items go in by `feed`, outputs come back from the same call."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from torvyn._contract.element import Element
from torvyn._contract.enums import TurnStatus
from torvyn._contract.roles import Emission
from torvyn._contract.signals import End
from torvyn.errors import FlowError
from torvyn.reactor.failures import busy_error, feed_error
from torvyn.reactor.flow_builder import FlowBuilder
from torvyn.reactor.statistics import Statistics

if TYPE_CHECKING:
    from torvyn._native import NativeFlow
    from torvyn.reactor.run.execution import Execution

# A list of str is not a `list[Emission]`: lists are invariant.
EmissionT = TypeVar("EmissionT", bound=Emission)


class FlowFeed(FlowBuilder):
    """The methods of a `Flow` that feed it and take its outputs."""

    _execution: Execution | None
    _is_fed = False

    @property
    def statistics(self) -> Statistics:
        raise NotImplementedError

    def _execute(self) -> Execution:
        raise NotImplementedError

    @overload
    def feed(self, items: Emission | list[Emission]) -> list[Element]: ...
    @overload
    def feed(self, items: list[EmissionT]) -> list[Element]: ...
    def feed(self, items: Any) -> list[Element]:
        """Puts one item or a list of items in, and returns the outputs that are ready.

        If the flow has an async or thread stage, more may follow: `on_ready` notifies you, and
        `ready` returns them.
        """
        execution, native = self._feed_target()
        if execution.events.over.is_set():
            execution.raise_failure()
            self._raise_already_ran()
        batch = items if isinstance(items, list) else [items]
        try:
            outputs, accepted = native.feed(batch)
        except ValueError as error:
            raise feed_error(batch, str(error), self.statistics) from None
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._feed_result(execution, native, batch, outputs, accepted)

    def feed_text(self, text: str) -> str | list[Element]:
        """Feeds one text. Returns the outputs joined to a str, without making elements, if they
        are texts without attributes and the flow goes on."""
        execution = self._execution
        native = None if execution is None else execution.native
        if execution is None or native is None:
            return self.feed(text)
        try:
            result = native.feed_text(text)
        except ValueError as error:
            raise feed_error([text], str(error), self.statistics) from None
        except RuntimeError:
            raise busy_error(self.plan) from None
        if isinstance(result, str):
            return result
        if native.is_over and not result[1]:
            return self.feed(text)  # It raises the reason.
        return self._feed_result(execution, native, [text], *result)

    @property
    def native_feed(self) -> NativeFlow | None:
        """The flow in native code, which may be fed there; `absorb` then takes its outputs."""
        return None if self._execution is None else self._execution.native

    def absorb(self, outputs: list[Element]) -> list[Element]:
        """Outputs of what was fed in native code. Raises the failure of the flow."""
        execution, native = self._feed_target()
        return self._feed_result(execution, native, [], outputs, 0)

    def _feed_result(
        self,
        execution: Execution,
        native: NativeFlow,
        batch: list[Any],
        outputs: list[Element],
        accepted: int,
    ) -> list[Element]:
        if native.is_over:
            # A verdict or a cancel may have ended it within the batch: the rest is not needed.
            return self._collect(execution, native, outputs)
        if accepted < len(batch):
            full = FlowError(
                "reactor.feed-full",
                f"the flow accepted {accepted} of {len(batch)} items: a later stage is too slow",
                hint="wait for `on_ready`, take the outputs with `ready`, then feed the rest",
            )
            full.accepted, full.ready = accepted, outputs
            raise full
        return outputs

    def finish(self, end: End | None = None) -> list[Element]:
        """Ends the input, and returns the outputs that are ready."""
        execution, native = self._feed_target()
        try:
            outputs = native.finish_feed(end)
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._collect(execution, native, outputs)

    def ready(self) -> list[Element]:
        """The outputs since the last call, of a flow that you feed."""
        execution, native = self._feed_target()
        outputs = native.outputs()
        try:
            # Until it parks: a wake-up during a turn needs another turn.
            while (
                not execution.counts.is_final
                and native.drive(False, False) is not TurnStatus.PARKED
            ):
                outputs += native.outputs()
        except RuntimeError:
            raise busy_error(self.plan) from None
        return self._collect(execution, native, outputs)

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when an async or thread stage has made progress.

        It runs on the running event loop if there is one, else on a thread of torvyn.
        """
        from torvyn.reactor.loop_driver import call_when_ready

        execution, native = self._feed_target()
        if execution.cancel_ready_callback is not None:
            execution.cancel_ready_callback()
        execution.cancel_ready_callback = call_when_ready(native, callback)

    def _feed_target(self) -> tuple[Execution, NativeFlow]:
        execution = self._execution
        if execution is None:
            self._must_be_fed()
            execution = self._execute()
            self._is_fed = True
            native = execution.start()
            execution.driver_thread = threading.get_ident()
            if any(node.run != "inline" for node in self.plan.nodes):
                # Other flows never wait, and the signal costs two file descriptors.
                native.drive_from_thread()
        if execution.native is None:
            self._raise_already_ran()
        return execution, execution.native

    def _collect(
        self, execution: Execution, native: NativeFlow, outputs: list[Element]
    ) -> list[Element]:
        outputs += native.outputs()
        if execution.events.over.is_set():
            execution.close()
            if isinstance(execution.error, FlowError):
                # The outputs from before the failure are not lost.
                execution.error.ready = outputs
            execution.raise_failure()
        return outputs

    def _cancel_feed(self, execution: Execution) -> None:
        """Runs the last turn, which nothing else would. If a thread is inside `feed`, the flow is
        busy, and that call runs it."""
        if self._is_fed:
            with contextlib.suppress(RuntimeError):
                execution.close()

    def _raise_already_ran(self) -> NoReturn:
        raise FlowError(
            "reactor.already-ran",
            f"flow `{self.name}` has been started; a flow runs once",
            hint="create a new flow",
        )
