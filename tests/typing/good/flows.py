# pyright: strict
"""Building, driving, feeding and asking flows, with the types that are shown for each."""

from pathlib import Path
from typing import reveal_type

import torvyn
from torvyn.testing import (
    Clock,
    CollectingSink,
    CountingSource,
    ScriptedSource,
    StallingSink,
    check_filter,
    idle,
    run_flow,
)
from torvyn.typing import OnError, PolicyOptions

retry: PolicyOptions = {"policy": "retry", "max": 3, "backoff": "10ms", "then": "skip"}
skip: OnError = "skip"

flow = torvyn.Flow(
    ["a"],
    name="main",
    priority="high",
    deadline_s=5,
    queue_depth=8,
    queue_bytes=1024,
    backpressure="drop-oldest",
    on_error=retry,
    clock=Clock(),
)
flow.add("model", "scripted", config={"tokens": ["a"]}, run="thread", on_error=skip)
flow.add("words", torvyn.source(["a"]), config="a", call_timeout_s=0.5, seed=7, unit="words")
flow.add("keep", "collect", on_error={"policy": "dead-letter", "to": "errors.jsonl"})
flow.add("null", CollectingSink).connect("words", "null")
flow.connect("model", "keep", backpressure="block", queue_depth=8, low_watermark=0.25)

reveal_type(flow)  # reveals: Flow
reveal_type(flow.add("last", "null"))  # reveals: Flow
reveal_type(flow.run())  # reveals: Statistics
reveal_type(flow.statistics.nodes["a"])  # reveals: NodeStatistics
reveal_type(flow.statistics.edges[0])  # reveals: EdgeStatistics
reveal_type(flow.statistics.emitted)  # reveals: int
reveal_type(flow.start())  # reveals: Flow
reveal_type(flow.wait(timeout_s=1))  # reveals: bool
reveal_type(flow.limit(5).trace())  # reveals: Flow
reveal_type(flow.feed("a"))  # reveals: list[Element]
reveal_type(flow.feed(["a", b"b"]))  # reveals: list[Element]
reveal_type(flow.finish(torvyn.End("stop")))  # reveals: list[Element]
reveal_type(flow.ready())  # reveals: list[Element]
reveal_type(flow.end)  # reveals: End | None
reveal_type(flow.plan)  # reveals: Plan
reveal_type(torvyn.load("Torvyn.toml"))  # reveals: Project
reveal_type(torvyn.load(Path()).flow("main", config={"a": "b"}))  # reveals: Flow
reveal_type(torvyn.Element("a"))  # reveals: Element
reveal_type(torvyn.PENDING.after(0.5))  # reveals: Pending
reveal_type(torvyn.Verdict.hold())  # reveals: Verdict
reveal_type(torvyn.filter(lambda element: True))  # reveals: Filter
reveal_type(torvyn.source(["a"]))  # reveals: Source
reveal_type(torvyn.engine.open("local"))  # reveals: Engine

for element in flow:
    reveal_type(element)  # reveals: Element
    reveal_type(element.data)  # reveals: memoryview[int]
for text in flow.text():
    reveal_type(text)  # reveals: str


async def drive() -> None:
    async for element in flow:
        reveal_type(element)  # reveals: Element
    reveal_type(await flow.run_async())  # reveals: Statistics


clock = Clock()
source = CountingSource(total=100)
sink = StallingSink(after=1)
run = run_flow(source, sink, capacity=4, backpressure="error", on_error=retry, until=idle)
reveal_type(run)  # reveals: FlowRun
reveal_type(run.go(idle).elements)  # reveals: list[Element]
reveal_type(run.texts)  # reveals: list[str]
run_flow(ScriptedSource(["a", torvyn.PENDING, ValueError("no")]), clock=clock, variant="native")
run_flow(flow)
check_filter(lambda: torvyn.filter(lambda element: True), ["a"])
clock.advance(5)

texts = ["a", "b"]
fed = torvyn.Flow(torvyn.filter(lambda element: True))
print(fed.feed(texts), fed.feed(fed.finish()))
for fault in (torvyn.InvalidInput("no"), torvyn.Unavailable("later")):
    reveal_type(fault.code)  # reveals: str
