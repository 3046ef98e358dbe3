"""Drops tokens on a list; its config is the words, separated by commas, or a table with `words`."""

import logging
from typing import TypedDict

import torvyn

logger = logging.getLogger("content-filter")


class Table(TypedDict):
    words: str | list[str]


class ContentFilter(torvyn.Filter):
    unit = "tokens"

    def init(self, config: str | Table) -> None:
        words = config if isinstance(config, str) else config["words"]
        if isinstance(words, str):
            words = words.split(",")
        # Without a word, it blocks this one: a filter must not pass everything by mistake.
        self.blocked = {word.strip().lower() for word in words if word.strip()} or {"blocked_word"}
        self.filtered = 0

    def evaluate(self, element: torvyn.Element) -> bool:
        is_blocked = element.text.strip().lower() in self.blocked
        self.filtered += is_blocked
        return not is_blocked

    def teardown(self) -> None:
        if self.filtered:
            logger.info("[content-filter] Filtered %d token(s) during this flow.", self.filtered)
