"""A source that a test feeds while the flow runs."""

from torvyn import PENDING, Source


class Fed(Source):
    """Sends what a test puts into `items`, and ends after None."""

    def __init__(self, *items):
        super().__init__()
        self.items = list(items)

    def put(self, *items):
        self.items += items
        self.wake()

    def pull(self):
        return self.items.pop(0) if self.items else PENDING
