"""Fills lines up to a width. Each input line produces none, one or many output lines."""

from collections.abc import Iterator

import torvyn


class Reflow(torvyn.Processor):
    unit = "lines"

    def init(self, config: dict[str, int]) -> None:
        self.width = config.get("width", 72)
        self.line = ""

    def process(self, element: torvyn.Element) -> Iterator[str]:
        words = element.text.split()
        if not words:  # a blank line ends a paragraph
            yield from self.flush()
            yield ""
        for word in words:
            if self.line and len(self.line) + 1 + len(word) > self.width:
                yield from self.flush()
            self.line = f"{self.line} {word}" if self.line else word

    def flush(self) -> list[str]:
        """Returns the rest: called by `process` between paragraphs, and by Torvyn at the end."""
        rest, self.line = self.line, ""
        return [rest] if rest else []
