"""The names of a flow and its edges on the broker: streams, subjects and buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from torvyn._link.plan import EdgePlan, Plan

_SAFE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
PARTITIONS_PER_REPLICA: Final = 16


def token(text: str) -> str:
    """The text as a part of a subject. A long or odd one is shortened, and has a checksum."""
    if _SAFE.fullmatch(text):
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{_UNSAFE.sub('-', text)[:32].strip('-')}-{digest}"


def edge_token(edge: EdgePlan) -> str:
    parts = [edge.source, edge.port, edge.target]
    if edge.input != "input":
        parts.append(edge.input)
    return token("-".join(parts))


@dataclass(frozen=True, slots=True)
class EdgeNames:
    stream: str
    prefix: str
    """What the subjects of the edge begin with. The number of partitions is a part of it: what a
    process publishes that knows another number is refused."""
    partitions: int

    def filter(self, partition: int) -> str:
        """All subjects of a partition."""
        return f"{self.prefix}.{partition}.*"

    def is_current(self, subject: str) -> bool:
        """Whether it is a subject of the edge."""
        return subject.startswith(f"{self.prefix}.")

    def is_of_edge(self, subject: str) -> bool:
        """Whether it is a subject of the edge, with whatever number of partitions."""
        return subject.startswith(self.prefix.rpartition(".")[0] + ".")


@dataclass(frozen=True, slots=True)
class FlowNames:
    """What a flow is called on the broker."""

    namespace: str
    """Empty for names as earlier versions had them."""
    flow: str

    @classmethod
    def of(cls, plan: Plan) -> FlowNames:
        return cls("" if plan.cluster is None else plan.cluster.namespace, plan.name)

    @property
    def _parts(self) -> list[str]:
        return [token(each) for each in (self.namespace, self.flow) if each]

    @property
    def bucket(self) -> str:
        """The bucket of the flow's entries."""
        return "_".join(("tv", *self._parts))

    @property
    def prefix(self) -> str:
        """What all subjects of its edges begin with."""
        return ".".join(("tv", *self._parts))

    @property
    def presence(self) -> str:
        """The subject on which every process of the flow answers."""
        return f"{self.prefix}.$running"

    def edge(self, edge: EdgePlan, partitions: int) -> EdgeNames:
        name = edge_token(edge)
        stream = "_".join(("TV", *self._parts, name))
        return EdgeNames(stream, f"{self.prefix}.{name}.{partitions}", partitions)
