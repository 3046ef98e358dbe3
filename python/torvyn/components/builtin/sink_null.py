"""`null`: discards every element. For benchmarks, and for flows that need no output."""

from __future__ import annotations

from typing import ClassVar

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn.components.config import parse_config
from torvyn.components.spec import Spec

SPEC = Spec(
    name="null",
    role="sink",
    summary="Discards every element.",
    example="""\
[flow.main.nodes.output]
component = "null"
""",
)


class Null(Sink):
    spec: ClassVar[Spec] = SPEC

    def init(self, config: str) -> None:
        parse_config(SPEC, config)

    def push(self, element: Element) -> None:
        """Discards the element."""

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        parse_config(SPEC, config)
        return ("null", {}) if type(self) is Null else None
