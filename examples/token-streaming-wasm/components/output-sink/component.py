"""Prints each sentence with its number."""

import torvyn


class OutputSink(torvyn.Sink):
    unit = "sentences"

    def init(self, config: str) -> None:
        self.received = 0

    def push(self, element: torvyn.Element) -> None:
        print(f"[output-sink] sentence {self.received}: {element.text}")
        self.received += 1

    def complete(self, end: torvyn.End) -> None:
        print("[output-sink] Stream complete.")
