"""Greets each name; its config is the greeting."""

import torvyn


class Greeter(torvyn.Processor):
    def init(self, config: str) -> None:
        self.greeting = config or "Hello"

    def process(self, element: torvyn.Element) -> str:
        return f"{self.greeting}, {element.text}!"
