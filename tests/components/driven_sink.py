"""A sink whose calls a test makes itself."""

import asyncio


class DrivenSink:
    """An async sink outside a flow; its calls run to their end on this thread."""

    def __init__(self, sink):
        self.sink = sink

    def push(self, *elements):
        """Raises the first refusal."""
        answer = asyncio.run(asyncio.wait_for(self.sink.push_batch(elements), 20))
        for error in filter(None, answer or ()):
            raise error
