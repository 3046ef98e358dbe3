"""The names of an edge on the broker: its stream, its subjects, and the partition of a key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from torvyn.link.plan import EdgePlan

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

    @classmethod
    def of(cls, flow: str, edge: EdgePlan, partitions: int) -> EdgeNames:
        flow_token, name = token(flow), edge_token(edge)
        prefix = f"tv.{flow_token}.{name}.{partitions}"
        return cls(f"TV_{flow_token}_{name}", prefix, partitions)

    def filter(self, partition: int) -> str:
        """All subjects of a partition."""
        return f"{self.prefix}.{partition}.*"

    def is_current(self, subject: str) -> bool:
        """Whether it is a subject of the edge."""
        return subject.startswith(f"{self.prefix}.")

    def is_of_edge(self, subject: str) -> bool:
        """Whether it is a subject of the edge, with whatever number of partitions."""
        return subject.startswith(self.prefix.rpartition(".")[0] + ".")


def bucket(flow: str) -> str:
    """The bucket of a flow's entries."""
    return f"tv_{token(flow)}"
