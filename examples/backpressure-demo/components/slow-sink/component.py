"""Stops for ten milliseconds after every hundredth element, like a client with a bad connection."""

import threading

import torvyn

STOP_S = 0.010


class SlowSink(torvyn.Sink):
    unit = "numbers"

    def init(self, config: str) -> None:
        self.received = 0
        self.in_order = True

    def push(self, element: torvyn.Element) -> torvyn.Signal:
        self.in_order &= element.text == str(self.received)
        self.received += 1
        if self.received % 100:
            return torvyn.Signal.READY
        # The flow parks without sleeping, and the queue fills up behind this element.
        threading.Timer(STOP_S, self.resume).start()
        return torvyn.Signal.PAUSE

    def complete(self, end: torvyn.End) -> None:
        order = "in order" if self.in_order else "OUT OF ORDER"
        print(f"[slow-sink] {self.received} delivered, {order}")
