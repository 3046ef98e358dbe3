"""A scenario: one random flow, what happens to it, and how it ends. Made from a seed, plain data.

Every decision of a component depends on the element's text alone, so what must come out does not
depend on who ran when.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, replace

MODES = ("inline", "thread", "async")
STYLES = {
    "source": ("pull", "iter", "pending", "wake"),
    "filter": ("drop", "replace", "hold", "block"),
    "processor": ("map", "same", "none", "pair", "generator", "breaks"),
    "stream": ("plain",),
    "router": ("plain",),
    "aggregator": ("two", "three"),
    "sink": ("plain", "pause"),
}
IN_ORDER = {"hold", "replace", "block", "two", "three"}
"""Styles whose result depends on the order of their input."""
POLICIES = ("fail-fast", "skip", "retry", "dead-letter")
BATCHES = ("entries", "raises", "only")
BATCHED_ROLES = ("filter", "processor", "aggregator", "sink")
ENDINGS = ("natural", "limit", "cancel", "drain", "interrupt", "deadline", "leave")


@dataclass(frozen=True)
class Edge:
    source: str
    """`node` or `node:port`."""
    depth: int = 64
    limit_bytes: int = 1 << 20
    backpressure: str = "block"


@dataclass(frozen=True)
class Stage:
    name: str
    role: str
    mode: str
    style: str
    inputs: tuple[Edge, ...] = ()
    count: int = 0
    """Elements of a source."""
    fails: int = 0
    """One element in so many; 0: none."""
    policy: str = "fail-fast"
    slow: int = 0
    """One call in so many takes time, if it can."""
    batches: str = ""
    """How its batch method fails: `entries`, `raises`; `only`: it has no other method."""
    crash: str = ""
    """`init` or `teardown`: it raises there; `fatal`: one call in thirty cannot be survived."""


@dataclass(frozen=True)
class Scenario:
    seed: int
    stages: tuple[Stage, ...]
    driver: str
    """`run`, `iterate` or `feed`."""
    ending: str
    at: int
    """The move that requests the ending; for `limit` and `leave`, the number of elements."""

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def drops(self) -> bool:
        """Whether elements may get lost on the way without anything being wrong."""
        lossy = any(e.backpressure != "block" for stage in self.stages for e in stage.inputs)
        return lossy or self.ending == "interrupt"

    @property
    def is_chain(self) -> bool:
        used = [edge.source.partition(":")[0] for s in self.stages for edge in s.inputs]
        is_joined = any(len(stage.inputs) > 1 for stage in self.stages)
        return not is_joined and len(used) == len(set(used)) == len(self.stages) - 1


def roll(stage: Stage, what: str, text: str, sides: int) -> int:
    return zlib.crc32(f"{stage.name}|{what}|{text}".encode()) % sides


def fails(stage: Stage, text: str) -> bool:
    return stage.fails > 0 and roll(stage, "fails", text, stage.fails) == 0


def is_fatal(stage: Stage, text: str) -> bool:
    return stage.crash == "fatal" and roll(stage, "fatal", text, 30) == 0


def attempts_needed(stage: Stage, text: str) -> int:
    """How often a call that fails does so before it would succeed."""
    return 1 + roll(stage, "times", text, 4)


def is_in_order(stages: tuple[Stage, ...], name: str) -> bool:
    """Whether a node sees its input in an order that does not depend on turns."""
    stage = next(stage for stage in stages if stage.name == name)
    if stage.role == "source" or not stage.inputs:
        return True
    if len(stage.inputs) > 1:
        return False
    return is_in_order(stages, stage.inputs[0].source.partition(":")[0])


def make_scenario(seed: int) -> Scenario:
    rng = random.Random(seed)
    driver = rng.choice(("run", "run", "run", "iterate", "feed"))
    stages: list[Stage] = []
    if driver == "feed":
        stages.append(_stage(rng, "n0", "processor", ()))
    else:
        for at in range(1 if driver == "iterate" else rng.choice((1, 1, 2))):
            source = _stage(rng, f"s{at}", "source", ())
            stages.append(replace(source, count=rng.choice((0, 1, 5, 20, 40))))
    for at in range(1, 1 + rng.choice((0, 1, 2, 3, 4))):
        stages.append(_middle(rng, stages, f"n{at}", is_chain=driver != "run"))
    if driver == "run":
        stages += _sinks(rng, stages)
    ending = rng.choice(ENDINGS)
    if driver == "run" and ending == "leave":
        ending = "cancel"
    return Scenario(seed, tuple(stages), driver, ending, rng.choice((0, 1, 3, 10, 30, 100)))


def _stage(rng: random.Random, name: str, role: str, inputs: tuple[Edge, ...]) -> Stage:
    policy = rng.choice(POLICIES)
    if role in ("source", "stream") and policy == "dead-letter":
        policy = "skip"
    style = rng.choice(STYLES[role])
    batches = rng.choice(("", "", "", *BATCHES)) if role in BATCHED_ROLES else ""
    if style in ("generator", "breaks") and batches == "only":
        # A batch of one cannot return a generator either.
        batches = "raises"
    return Stage(
        name=name,
        role=role,
        mode="async" if role == "stream" else rng.choice(MODES),
        style=style,
        inputs=inputs,
        fails=rng.choice((0, 0, 0, 4, 15)),
        policy=policy,
        slow=rng.choice((0, 0, 3)),
        batches=batches,
        crash=rng.choice((*[""] * 37, "init", "teardown", "fatal")),
    )


def _edge(rng: random.Random, source: str) -> Edge:
    backpressure = rng.choice(("block",) * 7 + ("drop-oldest", "drop-newest", "error"))
    return Edge(source, rng.choice((1, 2, 4, 64)), rng.choice((1, 12, 1 << 20)), backpressure)


def _outputs(stages: list[Stage]) -> list[str]:
    """Every output port of the stages so far."""
    ports = []
    for stage in stages:
        names = (f"{stage.name}:a", f"{stage.name}:b") if stage.role == "router" else (stage.name,)
        ports += names if stage.role != "sink" else ()
    return ports


def _middle(rng: random.Random, stages: list[Stage], name: str, *, is_chain: bool) -> Stage:
    if is_chain:
        inputs = (_edge(rng, stages[-1].name),)
    else:
        known = _outputs(stages)
        several = rng.random() < 0.2 and len(known) > 1
        chosen = rng.sample(known, 2) if several else [rng.choice(known[-2:])]
        inputs = tuple(_edge(rng, port) for port in sorted(chosen))
    roles = ["filter", "processor", "processor", "stream", "aggregator"]
    role = rng.choice(roles if is_chain else [*roles, "router"])
    stage = _stage(rng, name, role, inputs)
    if stage.style in IN_ORDER and not is_in_order((*stages, stage), name):
        stage = replace(stage, role="processor", style="map")
    return stage


def _sinks(rng: random.Random, stages: list[Stage]) -> list[Stage]:
    taken = {edge.source for stage in stages for edge in stage.inputs}
    free = [port for port in _outputs(stages) if port not in taken]
    return [_stage(rng, f"k{at}", "sink", (_edge(rng, port),)) for at, port in enumerate(free)]
