"""Components that block or spin in one phase, in every run mode, until they are released."""

import threading

import torvyn

RUNS = ("inline", "thread", "async")


class Blocker:
    """Keeps whoever calls it: by a lock, or by spinning."""

    def __init__(self, phase, how="lock"):
        self.phase = phase
        self.how = how
        self.entered = threading.Event()
        self.released = threading.Event()
        self.torn = threading.Event()

    def enter(self, phase):
        if phase == "teardown":
            self.torn.set()
        if phase != self.phase:
            return
        self.entered.set()
        if self.how == "lock":
            self.released.wait()
        while not self.released.is_set():
            pass


def part(blocker, run):
    """A processor, or a sink for `complete`, that blocks where the blocker says."""
    is_sink = blocker.phase == "complete"
    role = torvyn.Sink if is_sink else torvyn.Processor

    class Sync(role):
        def init(self, config):
            blocker.enter("init")

        def process(self, element):
            blocker.enter("work")
            return element.text

        def push(self, element):
            blocker.enter("work")

        def flush(self):
            blocker.enter("flush")

        def complete(self, end):
            blocker.enter("complete")

        def teardown(self):
            blocker.enter("teardown")

    class Async(role):
        async def init(self, config):
            blocker.enter("init")

        async def process(self, element):
            blocker.enter("work")
            return element.text

        async def push(self, element):
            blocker.enter("work")

        async def flush(self):
            blocker.enter("flush")

        async def complete(self, end):
            blocker.enter("complete")

        async def teardown(self):
            blocker.enter("teardown")

    made = Async() if run == "async" else Sync()
    made.run = run
    return made
