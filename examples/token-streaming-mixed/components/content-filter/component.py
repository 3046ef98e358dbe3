"""Drops tokens on a list; its config is the words, separated by commas."""

import torvyn


class ContentFilter(torvyn.Filter):
    unit = "tokens"

    def init(self, config: str) -> None:
        self.blocked = {word.strip().lower() for word in config.split(",")}

    def evaluate(self, element: torvyn.Element) -> bool:
        return element.text.strip().lower() not in self.blocked
