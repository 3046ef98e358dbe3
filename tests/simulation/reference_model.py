"""The reference: what must come out, computed one element at a time, without queues or turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from scenario import Scenario, Stage, attempts_needed, fails, is_fatal, roll

RETRIES = 2


class Stopped(Exception):
    """The flow fails here."""

    def __init__(self, node: str) -> None:
        self.node = node


def verdict(stage: Stage, text: str) -> tuple[str, str]:
    """What a filter says: the kind, and the text of a replacement."""
    number = roll(stage, "verdict", text, 12)
    if stage.style == "drop":
        return ("drop", "") if number % 3 == 0 else ("pass", "")
    if stage.style == "replace":
        return ("replace", text + "r" if number else "") if number % 4 == 0 else ("pass", "")
    if stage.style == "hold":
        return ("hold", "") if number % 3 == 0 else ("drop", "") if number == 1 else ("pass", "")
    return ("block", "") if number == 0 else ("pass", "")


def outputs_of(stage: Stage, text: str) -> list[str]:
    """What a processor or stream makes of a text; `breaks` raises after the first."""
    number = roll(stage, "made", text, 4)
    if stage.style == "none":
        return [] if number == 0 else [text]
    if stage.style == "pair":
        return [text + "p", text + "q"]
    if stage.style == "generator":
        return [f"{text}g{at}" for at in range(number)]
    if stage.style == "breaks":
        return [text + "b"]
    if stage.role == "stream":
        return [text + "s", text + "t"][: 1 + number % 2]
    return [text + "m"] if stage.style == "map" else [text]


def breaks(stage: Stage, text: str) -> bool:
    return stage.style == "breaks" and roll(stage, "breaks", text, 6) == 0


def ports_of(stage: Stage, text: str) -> list[str]:
    return (["a"], ["b"], ["a", "b"], [])[roll(stage, "ports", text, 4)]


class Model:
    """Pushes texts through the graph, depth first."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.outputs: dict[str, list[str]] = defaultdict(list)
        """What sinks accepted; under "" what the caller gets; under "letters" the dead letters."""
        self.failed_at: str | None = None
        self._after: dict[str, list[str]] = defaultdict(list)
        for stage in scenario.stages:
            for edge in stage.inputs:
                self._after[edge.source].append(stage.name)
        self._held: dict[str, list[str]] = defaultdict(list)
        self._gathered: dict[str, list[str]] = defaultdict(list)
        self._closed: set[str] = set()

    def run(self, inputs: dict[str, list[str]]) -> Model:
        """`inputs` are the texts of each source, or of the caller under ""."""
        try:
            for source, texts in inputs.items():
                for text in texts:
                    if source:
                        self._pull(source, text)
                    else:
                        self._push(self.scenario.stages[0].name, text)
        except Stopped as stopped:
            self.failed_at = stopped.node
            self._finish_after(stopped.node)
            return self
        self._finish_after(None)
        return self

    def _pull(self, source: str, text: str) -> None:
        stage = self.scenario.stage(source)
        if stage.style != "iter" and is_fatal(stage, text):
            raise Stopped(source)
        # Under another policy, the source is pulled again and then returns the element.
        if stage.style != "iter" and fails(stage, text) and stage.policy == "fail-fast":
            raise Stopped(source)
        self._send(source, text)

    def _finish_after(self, failed: str | None) -> None:
        """The end of the stream goes down the graph; before the node that failed it never does."""
        stages = self.scenario.stages
        at = 0 if failed is None else stages.index(self.scenario.stage(failed))
        while at < len(stages):
            stage = stages[at]
            try:
                self._flush(stage, is_failed=stage.name == failed)
                at += 1
            except Stopped as stopped:
                # What was flushed met a failure of its own further down.
                failed = self.failed_at = self.failed_at or stopped.node
                failed = stopped.node
                at = max(at + 1, stages.index(self.scenario.stage(failed)))

    def _flush(self, stage: Stage, *, is_failed: bool) -> None:
        if stage.name in self._closed:
            return
        self._release(stage)
        rest = self._gathered.pop(stage.name, [])
        if rest and not is_failed:
            self._send(stage.name, "+".join(rest))

    def _release(self, stage: Stage) -> None:
        for text in self._held.pop(stage.name, []):
            self._send(stage.name, text)

    def _send(self, port: str, text: str) -> None:
        targets = self._after.get(port, [])
        if not targets and self.scenario.driver != "run":
            self.outputs[""].append(text)
        for target in targets:
            self._push(target, text)

    def _push(self, name: str, text: str) -> None:
        stage = self.scenario.stage(name)
        if name in self._closed:
            return
        if is_fatal(stage, text):
            raise Stopped(name)
        if fails(stage, text) and not self._survives(stage, text):
            return
        act = getattr(self, f"_{stage.role}")
        for port, output in act(stage, text):
            self._send(port, output)
        if breaks(stage, text):
            self._broken(stage, text)

    def _survives(self, stage: Stage, text: str) -> bool:
        """Whether a call that fails at first succeeds in the end."""
        if stage.policy == "retry":
            return attempts_needed(stage, text) <= RETRIES
        self._broken(stage, text)
        return False

    def _broken(self, stage: Stage, text: str) -> None:
        if stage.policy == "fail-fast":
            raise Stopped(stage.name)
        if stage.policy == "dead-letter":
            self.outputs["letters"].append(text)

    def _filter(self, stage: Stage, text: str) -> Iterator[tuple[str, str]]:
        kind, other = verdict(stage, text)
        if kind == "hold":
            self._held[stage.name].append(text)
            return
        held = self._held.pop(stage.name, [])
        if kind == "pass":
            for one in [*held, text]:
                yield stage.name, one
        elif kind == "replace" and other:
            yield stage.name, other
        elif kind == "block":
            self._closed.add(stage.name)

    def _processor(self, stage: Stage, text: str) -> Iterator[tuple[str, str]]:
        for output in outputs_of(stage, text):
            yield stage.name, output

    _stream = _processor

    def _router(self, stage: Stage, text: str) -> Iterator[tuple[str, str]]:
        for port in ports_of(stage, text):
            yield f"{stage.name}:{port}", text

    def _aggregator(self, stage: Stage, text: str) -> Iterator[tuple[str, str]]:
        gathered = self._gathered[stage.name]
        gathered.append(text)
        if len(gathered) == (2 if stage.style == "two" else 3):
            del self._gathered[stage.name]
            yield stage.name, "+".join(gathered)

    def _sink(self, stage: Stage, text: str) -> Iterator[tuple[str, str]]:
        self.outputs[stage.name].append(text)
        return iter(())
