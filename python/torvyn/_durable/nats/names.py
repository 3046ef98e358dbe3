"""The names of a flow, its edges and its batches on the broker: streams, subjects, buckets, ids.

A batch is identified from its writer to its readers by its `Nats-Msg-Id`:

    WRITER.SERIES.GENERATION.PARTITION.FIRST.COUNT

The elements of a series are numbered per partition, without gaps. A segment whose progress is saved
continues its series after a crash; a source that publishes at once begins a new one. The last batch
of a run has no elements, and the run in the place of the generation. Native code makes and reads
them; this module makes those of ends and takes ids apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from torvyn._link.plan import EdgePlan, Plan

END: Final = "end"


class BatchId(NamedTuple):
    writer: int
    """Which replica of the segment has written it."""
    series: str
    generation: str
    """Which start of the segment has written it; at the end of a stream, the run."""
    partition: int
    first: int
    elements: int
    """0 at the end of a stream."""

    def __str__(self) -> str:
        count = self.elements or END
        parts = (self.writer, self.series, self.generation, self.partition, self.first, count)
        return ".".join(map(str, parts))

    @classmethod
    def parse(cls, text: str) -> BatchId | None:
        """None if something else has written the message."""
        parts = text.split(".")
        if len(parts) != len(cls._fields):
            return None
        try:
            count = 0 if parts[5] == END else int(parts[5])
            return cls(int(parts[0]), parts[1], parts[2], int(parts[3]), int(parts[4]), count)
        except ValueError:
            return None


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
