"""`console`: prints each element to standard output as it arrives.

On a terminal it escapes control characters: text in a flow may come from anywhere and must not move
the cursor or set the window title. To a pipe it writes the text unchanged.
"""

from __future__ import annotations

import sys
from typing import ClassVar, TextIO

from torvyn._contract.element import Element
from torvyn._contract.roles import Sink
from torvyn._io.line_output import write_text
from torvyn._io.safe_text import escape_controls
from torvyn.components.config import parse_config
from torvyn.components.spec import Option, Spec
from torvyn.errors import Fatal, Unavailable

SPEC = Spec(
    name="console",
    role="sink",
    summary="Prints each element to standard output as it arrives.",
    options=(
        Option("prefix", "text", "", "The text before each element."),
        Option("end", "text", "\n", "The text after each element."),
    ),
    main="prefix",
    example="""\
[flow.main.nodes.output]
component = "console"
config = { prefix = "> " }
""",
)


class Console(Sink):
    spec: ClassVar[Spec] = SPEC

    def init(self, config: str) -> None:
        options = parse_config(SPEC, config)
        self._prefix: str = options["prefix"]
        self._end: str = options["end"]
        if sys.stdout is None or sys.stdout.closed:
            raise Unavailable("standard output is closed")
        self._stream: TextIO = sys.stdout
        self._is_terminal = self._stream.isatty()

    def push(self, element: Element) -> None:
        text = element.text_lossy()
        if self._is_terminal:
            text = escape_controls(text)
        try:
            self._print(f"{self._prefix}{text}{self._end}")
        except BrokenPipeError as error:
            # Fatal, so that no error policy keeps the flow running without a reader.
            raise Fatal("the reader of standard output closed it") from error
        except ValueError as error:
            raise Fatal("the program closed standard output") from error

    def _print(self, text: str) -> None:
        write_text(self._stream, text)
        self._stream.flush()
