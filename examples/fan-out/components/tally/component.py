"""Counts one thing about a stream; its config says what: tokens, letters or longest."""

import torvyn


class Tally(torvyn.Sink):
    unit = "tokens"

    def init(self, config: str) -> None:
        self.what = config
        self.tokens: list[str] = []

    def push(self, element: torvyn.Element) -> None:
        self.tokens.append(element.text.strip())

    def complete(self, end: torvyn.End) -> None:
        print(f"[tally] {self.what}: {self.answer()}")

    def answer(self) -> int | str:
        if self.what == "letters":
            return sum(map(len, self.tokens))
        if self.what == "longest":
            return max(self.tokens, key=len)
        return len(self.tokens)
