"""Components that act out a stage of a scenario, in any run mode and in either world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, Protocol

from reference_model import RETRIES, breaks, outputs_of, ports_of, verdict
from scenario import Stage, attempts_needed, fails, is_fatal, roll

import torvyn
from torvyn import Element, Signal, Verdict


class World(Protocol):
    components: list[Any]

    def sleep(self, seconds: float) -> Awaitable[None]: ...
    def wait_for(self, component: Any, act: str) -> None:
        """The component waits for `resume()` or `wake()` from outside."""


class ScenarioComponent:
    """What all components share: the stage, the world, and failing on purpose."""

    stage: Stage
    world: World

    def act_out(self, stage: Stage, world: World) -> None:
        self.stage, self.world = stage, world
        self.attempts: Counter[str] = Counter()
        self.inits = self.teardowns = 0
        world.components.append(self)

    def init(self, config: str) -> None:
        if self.stage.crash == "init":
            raise RuntimeError("in init, on purpose")
        self.inits += 1
        self.set_up()

    def set_up(self) -> None:
        pass

    def teardown(self) -> None:
        self.teardowns += 1
        if self.stage.crash == "teardown":
            raise RuntimeError("in teardown, on purpose")

    def may_fail(self, text: str) -> None:
        if is_fatal(self.stage, text):
            raise torvyn.Fatal("for good, on purpose")
        if not fails(self.stage, text):
            return
        self.attempts[text] += 1
        is_retried = self.stage.policy == "retry"
        if is_retried and self.attempts[text] > attempts_needed(self.stage, text):
            del self.attempts[text]
            return
        if not is_retried or self.attempts[text] > RETRIES:
            # The last try: the same text may come again by another way.
            del self.attempts[text]
        raise torvyn.Unavailable("on purpose")

    def is_slow(self, text: str) -> bool:
        return self.stage.slow > 0 and roll(self.stage, "slow", text, self.stage.slow) == 0

    async def pause(self, text: str) -> None:
        if self.is_slow(text):
            await self.world.sleep(0.01)


class NumberSource(ScenarioComponent, torvyn.Source):
    def next_text(self) -> str | None:
        at = getattr(self, "sent", 0)
        if at == self.stage.count:
            return None
        text = f"{self.stage.name}.{at}"
        # A source that failed is pulled for the same element again.
        self.may_fail_once(text)
        self.sent = at + 1
        return text

    def may_fail_once(self, text: str) -> None:
        if is_fatal(self.stage, text):
            raise torvyn.Fatal("for good, on purpose")
        if fails(self.stage, text) and not self.attempts[text]:
            self.attempts[text] += 1
            raise torvyn.Unavailable("on purpose")

    def pull(self) -> Any:
        text = f"{self.stage.name}.{getattr(self, 'sent', 0)}"
        waits = self.stage.style in ("pending", "wake") and roll(self.stage, "wait", text, 3) == 0
        if waits and not self.attempts[f"wait {text}"]:
            self.attempts[f"wait {text}"] += 1
            if self.stage.style == "pending":
                return torvyn.PENDING.after(0.02)
            self.world.wait_for(self, "wake")
            return torvyn.PENDING
        return self.next_text()


class AsyncNumberSource(NumberSource):
    async def pull(self) -> Any:  # type: ignore[override]
        await self.pause(f"{self.stage.name}.{getattr(self, 'sent', 0)}")
        return super().pull()


class IteratedNumberSource(ScenarioComponent, torvyn.Source):
    """An iterator that raises has ended: it does not fail on purpose."""

    def __iter__(self) -> Iterator[str]:
        for at in range(self.stage.count):
            yield f"{self.stage.name}.{at}"


class AsyncIteratedNumberSource(ScenarioComponent, torvyn.Source):
    async def __aiter__(self) -> Any:
        for at in range(self.stage.count):
            await self.pause(str(at))
            yield f"{self.stage.name}.{at}"


class VerdictFilter(ScenarioComponent, torvyn.Filter):
    def evaluate(self, element: Element) -> Verdict | bool:
        self.may_fail(element.text)
        kind, text = verdict(self.stage, element.text)
        if kind == "replace":
            return Verdict.replace(text)
        if kind == "block":
            return Verdict.block("enough")
        return {"pass": Verdict.PASS, "drop": Verdict.DROP, "hold": Verdict.hold()}[kind]


class AsyncVerdictFilter(VerdictFilter):
    async def evaluate(self, element: Element) -> Any:  # type: ignore[override]
        await self.pause(element.text)
        return super().evaluate(element)


class TextProcessor(ScenarioComponent, torvyn.Processor):
    def process(self, element: Element) -> Any:
        self.may_fail(element.text)
        outputs = outputs_of(self.stage, element.text)
        style = self.stage.style
        if style == "same":
            return element
        if style in ("generator", "breaks"):
            return self.generate(element.text, outputs)
        return outputs if style == "pair" else outputs[0] if outputs else None

    def generate(self, text: str, outputs: list[str]) -> Iterator[str]:
        yield from outputs
        if breaks(self.stage, text):
            raise torvyn.InvalidInput("half-way, on purpose")


class AsyncTextProcessor(TextProcessor):
    async def process(self, element: Element) -> Any:
        await self.pause(element.text)
        return super().process(element)


class PortRouter(ScenarioComponent, torvyn.Router):
    ports = ("a", "b")

    def route(self, element: Element) -> list[str]:
        self.may_fail(element.text)
        return ports_of(self.stage, element.text)


class AsyncPortRouter(PortRouter):
    async def route(self, element: Element) -> Any:  # type: ignore[override]
        await self.pause(element.text)
        return super().route(element)


class TextJoiner(ScenarioComponent, torvyn.Aggregator):
    def set_up(self) -> None:
        self.gathered: list[str] = []

    def ingest(self, element: Element) -> str | None:
        self.may_fail(element.text)
        self.gathered.append(element.text)
        if len(self.gathered) < (2 if self.stage.style == "two" else 3):
            return None
        return self.flush()[0]

    def flush(self) -> list[str]:
        whole, self.gathered = self.gathered, []
        return ["+".join(whole)] if whole else []


class AsyncTextJoiner(TextJoiner):
    async def ingest(self, element: Element) -> Any:  # type: ignore[override]
        await self.pause(element.text)
        return super().ingest(element)


class RecordingSink(ScenarioComponent, torvyn.Sink):
    texts: Sequence[str] = ()

    def set_up(self) -> None:
        self.texts: list[str] = []
        self.completed = 0

    def push(self, element: Element) -> Signal | None:
        self.may_fail(element.text)
        self.texts.append(element.text)
        if self.stage.style == "pause" and roll(self.stage, "pause", element.text, 3) == 0:
            self.world.wait_for(self, "resume")
            return Signal.PAUSE
        return None

    def complete(self, end: torvyn.End) -> None:
        self.completed += 1


class AsyncRecordingSink(RecordingSink):
    async def push(self, element: Element) -> Any:  # type: ignore[override]
        await self.pause(element.text)
        return super().push(element)


def stream_function(stage: Stage, world: World) -> Any:
    acting = ScenarioComponent()
    acting.act_out(stage, world)

    async def rewrite(stream: Any) -> Any:
        async for element in stream:
            await acting.pause(element.text)
            acting.may_fail(element.text)
            for output in outputs_of(stage, element.text):
                yield output

    return torvyn.stream(rewrite)


_SYNC = {
    "filter": VerdictFilter,
    "processor": TextProcessor,
    "router": PortRouter,
    "aggregator": TextJoiner,
    "sink": RecordingSink,
}
_ASYNC = {
    "filter": AsyncVerdictFilter,
    "processor": AsyncTextProcessor,
    "router": AsyncPortRouter,
    "aggregator": AsyncTextJoiner,
    "sink": AsyncRecordingSink,
}


def component_for(stage: Stage, world: World) -> Any:
    """A component for the stage; its run mode follows from the class, or is set by the caller."""
    if stage.role == "stream":
        return stream_function(stage, world)
    is_async = stage.mode == "async"
    if stage.role == "source":
        iterated = AsyncIteratedNumberSource if is_async else IteratedNumberSource
        pulled = AsyncNumberSource if is_async else NumberSource
        component: Any = iterated() if stage.style == "iter" else pulled()
    elif stage.batches:
        from batch_components import batch_class

        component = batch_class(stage.role, stage.batches, is_async)()
    else:
        component = (_ASYNC if is_async else _SYNC)[stage.role]()
    component.act_out(stage, world)
    return component
