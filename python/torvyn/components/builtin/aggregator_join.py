"""`join`: pairs the elements of two inputs whose event times lie close together.

Every pair within the bound is sent once, as soon as its second element arrives. An element waits
until no partner can come any more: until the watermark of the other input has passed its time and
the bound. The number of waiting elements is limited; beyond it, the oldest stops waiting.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar

from torvyn._contract.element import Element, Output
from torvyn._contract.roles import Aggregator
from torvyn.components.config import parse_config, wrong_config
from torvyn.components.event_time import TIME_OPTIONS, WallClock, time_reader
from torvyn.components.join_side import JoinSide, Waiting
from torvyn.components.json_fields import JSON_TYPE, read_object
from torvyn.components.spec import Option, Spec

SPEC = Spec(
    name="join",
    role="aggregator",
    summary="Pairs the elements of its inputs `left` and `right` that are close in time.",
    options=(
        Option("within", "duration", None, "The greatest distance of a pair.", required=True),
        Option(
            "mode",
            "choice",
            "inner",
            "`inner` sends pairs. `left` also sends elements of `left` without a partner, `outer` "
            "those of both inputs; the missing side is null. All others without a partner leave "
            "through the port `unmatched`.",
            choices=("inner", "left", "outer"),
        ),
        *TIME_OPTIONS,
        Option(
            "max_waiting",
            "integer",
            1000,
            "The elements of an input that may wait for a partner, per key.",
            minimum=1,
        ),
        Option(
            "idle_close",
            "duration",
            0.0,
            "Ends the waiting of a key that has sent nothing for this long; 0 means never.",
        ),
    ),
    main="within",
    example="""\
[flow.main.nodes.paired]
component = "join"
key = "machine"
config = { within = "2s", time = "at", mode = "left" }

[[flow.main.edges]]
from = "temperatures"
to = "paired:left"
""",
)

LATE, UNMATCHED = "late", "unmatched"
_SENDS = {"inner": (), "left": ("left",), "outer": ("left", "right")}


class Join(Aggregator):
    spec: ClassVar[Spec] = SPEC
    unit = "pairs"
    inputs = ("left", "right")
    ports = (LATE, UNMATCHED)

    def init(self, config: Any) -> None:
        options = parse_config(SPEC, config)
        self.check_options(options)
        self._within_ns = round(options["within"] * 1e9)
        self._lateness_ns = round(options["lateness"] * 1e9)
        self._max_future_ns = round(options["max_future"] * 1e9)
        self._idle_ns: int = round(options["idle_close"] * 1e9)
        self._max_waiting: int = options["max_waiting"]
        self._sends = _SENDS[options["mode"]]
        time = options["time"]
        self._read_time = time_reader(time, options["time_unit"]) if time else None
        self._clock = WallClock(self)
        self._steps = 0
        self._last_ns: int | None = None
        self._sides = {name: JoinSide() for name in self.inputs}
        self._taken = 0
        self._arrivals: deque[Waiting] = deque()
        """The elements that wait, in the order of their arrival, and some that wait no longer."""
        self.counts = {"late": 0, "future": 0, "unmatched": 0, "overflowed": 0}

    @classmethod
    def check_options(cls, options: dict[str, Any]) -> None:
        if options["within"] <= 0:
            raise wrong_config(SPEC, "`within` must be greater than 0")

    @property
    def held_bytes(self) -> int:
        return sum(side.held_bytes for side in self._sides.values())

    def ingest(self, element: Element) -> list[Output]:
        outputs = self._join(element)
        self._taken += 1
        return outputs

    def _join(self, element: Element) -> list[Output]:
        record = read_object(element)
        name = self.input
        own, other = self._sides[name], self._sides["right" if name == "left" else "left"]
        done: list[Output] = []
        if self._read_time is None:
            time_ns = self._arrival(element, done)
        else:
            time_ns = self._read_time(record)
            if self._clock.is_future(time_ns, element.timestamp_ns, self._max_future_ns):
                self.counts["future"] += 1
                return [_set_aside(element.text, LATE, "future")]
        if time_ns < own.newest_ns - self._lateness_ns:
            self.counts["late"] += 1
            return [*done, _set_aside(element.text, LATE, "late")]
        if self._idle_ns:
            self._last_ns = self.now_ns()
        waiting = Waiting(time_ns, element.text, self._taken)
        for partner in other.near(time_ns, self._within_ns):
            waiting.is_matched = partner.is_matched = True
            done.append(self._pair(name, waiting, partner))
        own.add(waiting)
        self._arrivals.append(waiting)
        done += self._release(name)
        return done

    def _arrival(self, element: Element, done: list[Output]) -> int:
        time_ns = self._clock.arrival_ns(element)
        if self._clock.steps != self._steps:
            # The wall clock was set: times before and after it cannot be compared.
            self._steps = self._clock.steps
            done += self.flush()
            for side in self._sides.values():
                side.reset()
        return time_ns

    def _pair(self, name: str, waiting: Waiting, partner: Waiting) -> Output:
        left, right = (waiting, partner) if name == "left" else (partner, waiting)
        return self._output(left.text, right.text)

    def _output(self, left: str, right: str) -> Output:
        # Both texts are JSON already.
        key = "" if self.key is None else f'"key":{json.dumps(self.key, ensure_ascii=False)},'
        return Output(f'{{{key}"left":{left},"right":{right}}}', content_type=JSON_TYPE)

    # Elements that stop waiting

    def _release(self, name: str) -> Iterator[Output]:
        """Ends the waiting of elements that can have no partner any more, and of the oldest of
        those that are too many."""
        for own, other in (("left", "right"), ("right", "left")):
            side = self._sides[own]
            watermark_ns = self._sides[other].newest_ns - self._lateness_ns
            for waiting in side.take_before(watermark_ns - self._within_ns):
                yield from self._unmatched(own, waiting)
        side = self._sides[name]
        if len(side) > self._max_waiting:
            self.counts["overflowed"] += 1
            yield from self._unmatched(name, side.take_oldest())

    def _unmatched(self, name: str, waiting: Waiting) -> Iterator[Output]:
        if waiting.is_matched:
            return
        self.counts["unmatched"] += 1
        if name not in self._sends:
            yield _set_aside(waiting.text, UNMATCHED, name)
        elif name == "left":
            yield self._output(waiting.text, "null")
        else:
            yield self._output("null", waiting.text)

    def flush(self) -> list[Output]:
        return [
            output
            for name, side in self._sides.items()
            for waiting in side.take_all()
            for output in self._unmatched(name, waiting)
        ]

    def due_ns(self) -> int | None:
        if not self._idle_ns or not any(len(side) for side in self._sides.values()):
            return None
        if self._last_ns is None:
            self._last_ns = self.now_ns()
        return self._last_ns + self._idle_ns

    def on_timer(self) -> list[Output]:
        return self.flush()

    def held_elements(self) -> int:
        arrivals = self._arrivals
        while arrivals and arrivals[0].has_ended:
            arrivals.popleft()
        return self._taken - arrivals[0].index if arrivals else 0

    # State

    def snapshot(self) -> Any:
        return {name: side.state() for name, side in self._sides.items()}

    def restore(self, state: Any) -> None:
        self._sides = {name: JoinSide(state[name]) for name in self.inputs}
        self._last_ns = None


def _set_aside(text: str, port: str, reason: str) -> Output:
    return Output(text, content_type=JSON_TYPE, attributes={"set_aside": reason}, port=port)
