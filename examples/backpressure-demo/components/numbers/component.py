"""Counts as fast as it is pulled; its config is how many numbers."""

import torvyn


class Numbers(torvyn.Source):
    unit = "numbers"

    def init(self, config: str) -> None:
        self.total = int(config)
        self.sent = 0
        self.pauses = 0

    def pull(self) -> str | None:
        if self.sent == self.total:
            return None
        self.sent += 1
        return str(self.sent - 1)

    def notify_backpressure(self, signal: torvyn.Signal) -> None:
        """Called once when the queue is full, and once when it has capacity again."""
        self.pauses += signal is torvyn.Signal.PAUSE

    def teardown(self) -> None:
        told = "was held back" if self.pauses else "was never held back"
        print(f"[numbers] the source {told}")
