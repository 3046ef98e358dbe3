"""Random graphs for the laws: what they are, how they are built, and what must come out of them."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import strategies as st

import torvyn
from torvyn.testing import CollectingSink, as_variant

MODES = ("python", "thread", "async")


@dataclass(frozen=True)
class Node:
    """A stage: it takes from earlier nodes and drops every `drops`th number."""

    inputs: tuple[int, ...]
    mode: str
    kind: str
    drops: int


@dataclass(frozen=True)
class Graph:
    sources: tuple[tuple[int, str], ...]
    """How many elements each sends, and how it runs."""
    nodes: tuple[Node, ...]
    depths: tuple[int, ...]
    limit_bytes: int
    sink_mode: str


@st.composite
def graphs(draw, modes=MODES):
    mode = st.sampled_from(modes)
    sources = draw(st.lists(st.tuples(st.integers(0, 40), mode), min_size=1, max_size=3))
    nodes = []
    for at in range(draw(st.integers(0, 5))):
        known = st.integers(0, len(sources) + at - 1)
        inputs = draw(st.lists(known, min_size=1, max_size=2, unique=True))
        kind = draw(st.sampled_from(["filter", "processor", "many", "generator"]))
        nodes.append(Node(tuple(inputs), draw(mode), kind, draw(st.sampled_from([0, 2, 3]))))
    depths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=7))
    limit_bytes = draw(st.sampled_from([1, 8, 64, 1 << 20]))
    return Graph(tuple(sources), tuple(nodes), tuple(depths), limit_bytes, draw(mode))


def number_of(text):
    return int(text.partition(":")[2].partition("/")[0])


def outputs(node, at, text):
    """The outputs of a node for a text: the reference for the flow."""
    if node.drops and number_of(text) % node.drops == 0:
        return []
    if node.kind == "filter":
        return [text]
    tagged = f"{text}/{at}"
    return [tagged] if node.kind == "processor" else [tagged, f"{tagged}b"]


def stage_of(node, at):
    if node.kind == "filter":
        return torvyn.filter(lambda element: bool(outputs(node, at, element.text)))
    if node.kind == "generator":
        return torvyn.processor(lambda element: (out for out in outputs(node, at, element.text)))
    return torvyn.processor(lambda element: outputs(node, at, element.text))


class Numbers(torvyn.Source):
    def __init__(self, name, total):
        super().__init__()
        self.name, self.total = name, total

    def init(self, config):
        self.sent = 0

    def pull(self):
        if self.sent == self.total:
            return None
        self.sent += 1
        return f"{self.name}:{self.sent - 1}"


def build(graph, make_sink=CollectingSink, **options):
    """The flow and its sinks, by the number of the node that each listens to."""
    flow, depths, edges = torvyn.Flow(**options), graph.depths, []
    for name, (total, mode) in enumerate(graph.sources):
        flow.add(f"n{name}", as_variant(Numbers(name, total), mode))
    for at, node in enumerate(graph.nodes, len(graph.sources)):
        flow.add(f"n{at}", as_variant(stage_of(node, at), node.mode))
        edges += [(f"n{source}", f"n{at}") for source in node.inputs]
    sinks = {}
    for at in range(len(graph.sources) + len(graph.nodes)):
        if not any(source == f"n{at}" for source, _ in edges):
            sinks[at] = make_sink()
            flow.add(f"sink{at}", as_variant(sinks[at], graph.sink_mode))
    edges += [(f"n{at}", f"sink{at}") for at in sinks]
    for number, (source, target) in enumerate(edges):
        depth = depths[number % len(depths)]
        flow.connect(source, target, queue_depth=depth, queue_bytes=graph.limit_bytes)
    return flow, sinks


def expected(graph):
    """What each node sends, counted."""
    sent = [
        Counter(f"{name}:{number}" for number in range(total))
        for name, (total, _) in enumerate(graph.sources)
    ]
    for at, node in enumerate(graph.nodes, len(graph.sources)):
        made = Counter()
        for source in node.inputs:
            for text, count in sent[source].items():
                for out in outputs(node, at, text):
                    made[out] += count
        sent.append(made)
    return sent
