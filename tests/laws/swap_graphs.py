"""Random graphs whose components are exchanged while they run."""

import asyncio
import random
from collections import defaultdict
from dataclasses import replace

from graphs import MODES, outputs

import torvyn
from torvyn.errors import FlowError
from torvyn.testing import as_variant

FAULTS = (None, None, None, "init", "restore")
REFUSED = {
    None: ("swap.ended", "swap.not-running"),
    "init": ("reactor.init-failed", "swap.ended", "swap.not-running"),
    "restore": ("swap.state-refused", "swap.ended", "swap.not-running"),
}


class Numbers(torvyn.Source):
    """Sends `name:number`; its position moves to the next version."""

    def __init__(self, name, total, fault=None):
        super().__init__()
        self.name, self.total, self.fault, self.sent = name, total, fault, 0

    def init(self, config):
        if self.fault == "init":
            raise torvyn.Unavailable("not ready")

    def pull(self):
        if self.sent == self.total:
            return None
        self.sent += 1
        return f"{self.name}:{self.sent - 1}"

    def snapshot(self):
        return {"sent": self.sent}

    def restore(self, state):
        if self.fault == "restore":
            raise ValueError("unknown state")
        self.sent = state["sent"]


class AsyncNumbers(Numbers):
    async def pull(self):
        await asyncio.sleep(0)
        return super().pull()


def numbers(name, total, mode, fault=None):
    if mode == "async":
        return AsyncNumbers(name, total, fault)
    return as_variant(Numbers(name, total, fault), mode)


class SwappedFlow:
    """A flow of a random graph, and what its components have seen."""

    def __init__(self, graph, seed, *, breaks=False):
        """`breaks`: some versions fail on their first element, and any may have another run
        mode."""
        self.breaks = breaks
        sources = tuple((25 * total, mode) for total, mode in graph.sources)
        self.graph = replace(graph, sources=sources)
        self.versions = defaultdict(list)
        self.texts = defaultdict(list)
        self.random = random.Random(seed)
        self.flow = self._build()

    def _build(self):
        graph, flow, edges = self.graph, torvyn.Flow(), []
        for at in range(len(graph.sources) + len(graph.nodes)):
            flow.add(f"n{at}", self.component(f"n{at}"))
        for at, node in enumerate(graph.nodes, len(graph.sources)):
            edges += [(f"n{source}", f"n{at}") for source in node.inputs]
        fed = {source for source, _ in edges}
        self.sinks = [at for at in range(len(flow._record.nodes)) if f"n{at}" not in fed]
        for at in self.sinks:
            flow.add(f"sink{at}", self.component(f"sink{at}"))
        edges += [(f"n{at}", f"sink{at}") for at in self.sinks]
        for number, (source, target) in enumerate(edges):
            depth = graph.depths[number % len(graph.depths)]
            flow.connect(source, target, queue_depth=depth, queue_bytes=graph.limit_bytes)
        return flow

    def component(self, name, version=0, fault=None):
        """A version of a node's component."""
        graph = self.graph
        if name.startswith("sink"):
            texts = self.texts[int(name[4:])]
            sink = torvyn.sink(lambda element: texts.append(element.text))
            return as_variant(sink, graph.sink_mode)
        at = int(name[1:])
        if at < len(graph.sources):
            return numbers(at, *graph.sources[at], fault)
        node, seen = graph.nodes[at - len(graph.sources)], self.versions[name]
        mode = self.random.choice(MODES) if self.breaks else node.mode
        is_broken = self.breaks and version > 0 and self.random.random() < 0.4

        def process(element):
            if is_broken:
                raise ValueError("broken")
            seen.append(version)
            made = outputs(node, at, element.text)
            return (text for text in made) if node.kind == "generator" else made

        if node.kind == "filter":
            return as_variant(torvyn.filter(lambda element: bool(process(element))), mode)
        return as_variant(torvyn.processor(process), mode)

    def swap_once(self, version):
        """Exchanges a random component; False when the flow is over."""
        name = self.random.choice(sorted(self.flow._record.nodes))
        is_source = name.startswith("n") and int(name[1:]) < len(self.graph.sources)
        fault = self.random.choice(FAULTS) if is_source else None
        trial_s = 5.0 if self.breaks else self.random.choice([0.0, 5.0])
        try:
            self.flow.swap(name, self.component(name, version, fault), trial_s=trial_s)
        except FlowError as error:
            if error.code not in REFUSED[fault]:
                raise
            return error.code not in ("swap.ended", "swap.not-running")
        return True
