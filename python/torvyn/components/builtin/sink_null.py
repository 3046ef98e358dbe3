"""`null`: takes every element and does nothing with it.

For benchmarks, and for flows whose components do their work on the way.
"""

from __future__ import annotations

from typing import ClassVar

from torvyn.components.config import parse_config
from torvyn.components.spec import Spec
from torvyn.contract import Element, Sink

SPEC = Spec(
    name="null",
    role="sink",
    summary="Takes every element and does nothing with it.",
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
        """Nothing."""

    def native_stage(self, config: str) -> tuple[str, dict[str, object]] | None:
        parse_config(SPEC, config)
        return ("null", {}) if type(self) is Null else None
