"""`response`: the answer of a flow.

`torvyn run` prints its text as it arrives, without separators. When a server runs the flow, the
caller receives it.
"""

from __future__ import annotations

from typing import ClassVar

from torvyn._contract.element import Element
from torvyn._contract.signals import End
from torvyn.components.builtin.sink_console import Console
from torvyn.components.config import parse_config
from torvyn.components.spec import Spec

SPEC = Spec(
    name="response",
    role="sink",
    summary="The answer of a flow: printed as it arrives, or sent to the caller.",
    options=(),
    example="""\
[flow.main.nodes.answer]
component = "response"
""",
)


class ResponseSink(Console):
    spec: ClassVar[Spec] = SPEC

    def init(self, config: str) -> None:
        parse_config(SPEC, config)
        super().init('{"end": ""}')
        self._is_line_open = False

    def push(self, element: Element) -> None:
        # Reasoning and tool calls are not part of the text.
        if element.attributes.get("kind", "text") != "text" or not len(element):
            return
        super().push(element)
        self._is_line_open = not element.text_lossy().endswith("\n")

    def complete(self, end: End) -> None:
        if self._is_line_open:
            self._print("\n")
