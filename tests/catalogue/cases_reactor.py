"""One provocation for each code of flows that run, and of components that break or fail."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torvyn
from torvyn._durable.checkpoint import encode
from torvyn._flow.failures import make_exception
from torvyn.errors import ComponentError
from torvyn.testing import CollectingSink, CountingSource, ScriptedSource, StallingSink, run_flow


def _yes(element: torvyn.Element) -> bool:
    return True


def _flow() -> torvyn.Flow:
    return torvyn.Flow(ScriptedSource("a"), CollectingSink())


def _bad_attribute(_folder: Path) -> None:
    class Closed(torvyn.Filter):
        def __getattr__(self, name: str) -> None:
            raise KeyError(name)

    _ = torvyn.Flow(Closed()).plan


def _bad_snapshot(_folder: Path) -> None:
    encode("window", object())


def _wrong_signature(_folder: Path) -> None:
    class Narrow(torvyn.Processor):
        def process(self) -> None:  # type: ignore[override]
            pass

    _ = torvyn.Flow(Narrow()).plan


def _already_ran(_folder: Path) -> None:
    flow = _flow()
    flow.run()
    flow.run()


def _busy(_folder: Path) -> None:
    failures = []

    def feed_again(element: torvyn.Element) -> None:
        try:
            flow.feed("b")
        except torvyn.TorvynError as error:
            failures.append(error)

    flow = torvyn.Flow(torvyn.processor(feed_again))
    flow.feed("a")
    flow.finish()
    raise failures[0]


def _deadline_exceeded(_folder: Path) -> None:
    torvyn.Flow(ScriptedSource([torvyn.PENDING]), CollectingSink(), deadline_s=0.001).run()


def _feed_full(_folder: Path) -> None:
    release = threading.Event()

    class Slow(torvyn.Processor):
        run = "thread"

        def process(self, element: torvyn.Element) -> None:
            release.wait()

    flow = torvyn.Flow(Slow())
    try:
        flow.feed(["a"] * 100)
    finally:
        flow.cancel()
        release.set()
        flow.ready()


def _has_sink(_folder: Path) -> None:
    list(_flow())


def _has_source(_folder: Path) -> None:
    torvyn.Flow(ScriptedSource("a"), torvyn.filter(_yes)).feed("b")


def _init_failed(_folder: Path) -> None:
    class Broken(CollectingSink):
        def init(self, config: str) -> None:
            raise RuntimeError("no")

    torvyn.Flow(ScriptedSource("a"), Broken()).run()


def _init_timeout(_folder: Path) -> None:
    class Slow(torvyn.Sink):
        async def init(self, config: str) -> None:
            await asyncio.Event().wait()

        async def push(self, element: torvyn.Element) -> None: ...

    flow = torvyn.Flow().add("source", ScriptedSource("a"))
    flow.add("sink", Slow(), init_timeout_s=0.001).connect("source", "sink").run()


def _memory_exceeded(_folder: Path) -> None:
    flow = torvyn.Flow().add("source", ScriptedSource(["x" * 100]), max_memory_bytes=10)
    flow.add("sink", CollectingSink()).connect("source", "sink").run()


def _name_taken(_folder: Path) -> None:
    torvyn.Flow().add("sink", CollectingSink()).add("sink", CollectingSink())


def _no_sink(_folder: Path) -> None:
    torvyn.Flow(ScriptedSource("a")).run()


def _no_source(_folder: Path) -> None:
    torvyn.Flow(torvyn.filter(_yes), CollectingSink()).run()


def _not_started(_folder: Path) -> None:
    _flow().wait()


def _panic(_folder: Path) -> None:
    raise make_exception(_flow().plan, [], {"kind": "panic", "message": "index out of bounds"})


def _queue_full(_folder: Path) -> None:
    with mock.patch.dict(os.environ, {"TORVYN_RUNTIME__DRAIN_TIMEOUT": "50ms"}):
        torvyn.Flow(CountingSource(100), StallingSink(), backpressure="error").run()


def _not_a_component(_folder: Path) -> None:
    torvyn.Flow(5)


def _wrong_result(_folder: Path) -> None:
    torvyn.Flow(ScriptedSource("a"), torvyn.sink(lambda element: 5)).run()


def _raising(error: type[ComponentError]) -> Callable[[Path], object]:
    return lambda _folder: run_flow(ScriptedSource([error("here")]))


def _not_asyncio(_folder: Path) -> None:
    # Stepped by hand, so on no loop of asyncio.
    _flow().run_async().send(None)


CASES: dict[str, Callable[[Path], object]] = {
    "reactor.already-ran": _already_ran,
    "reactor.busy": _busy,
    "reactor.deadline-exceeded": _deadline_exceeded,
    "reactor.feed-full": _feed_full,
    "reactor.has-sink": _has_sink,
    "reactor.has-source": _has_source,
    "reactor.init-failed": _init_failed,
    "reactor.init-timeout": _init_timeout,
    "reactor.memory-exceeded": _memory_exceeded,
    "reactor.name-taken": _name_taken,
    "reactor.no-sink": _no_sink,
    "reactor.no-source": _no_source,
    "reactor.not-started": _not_started,
    "reactor.panic": _panic,
    "reactor.queue-full": _queue_full,
    "loops.not-asyncio": _not_asyncio,
    "contract.bad-attribute": _bad_attribute,
    "contract.bad-snapshot": _bad_snapshot,
    "contract.wrong-signature": _wrong_signature,
    "contract.not-a-component": _not_a_component,
    "contract.wrong-result": _wrong_result,
    "component.invalid-input": _raising(torvyn.InvalidInput),
    "component.unavailable": _raising(torvyn.Unavailable),
    "component.internal": _raising(torvyn.Internal),
    "component.deadline-exceeded": _raising(torvyn.DeadlineExceeded),
    "component.fatal": _raising(torvyn.Fatal),
}
