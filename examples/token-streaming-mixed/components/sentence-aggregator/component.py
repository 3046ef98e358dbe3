"""Collects tokens until one ends a sentence."""

import torvyn


class SentenceAggregator(torvyn.Aggregator):
    unit = "sentences"

    def init(self, config: str) -> None:
        self.tokens: list[str] = []

    def ingest(self, element: torvyn.Element) -> str | None:
        self.tokens.append(element.text)
        if element.text.rstrip().endswith((".", "!", "?")):
            return self.take()
        return None

    def flush(self) -> list[str]:
        rest = self.take()
        return [rest] if rest else []

    def take(self) -> str:
        sentence = "".join(self.tokens).strip()
        self.tokens.clear()
        return sentence
