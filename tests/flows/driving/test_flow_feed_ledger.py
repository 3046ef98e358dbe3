"""The ledger of a fed flow: what the caller has taken is released, also what a flush sent."""

import torvyn


class Joined(torvyn.Aggregator):
    """Everything as one, at the end."""

    def init(self, config):
        self.held = []

    def ingest(self, element):
        self.held.append(element.text)

    def flush(self):
        return ["".join(self.held)]


def test_nothing_is_alive_after_the_last_outputs_were_taken():
    flow = torvyn.Flow(Joined())

    flow.feed(["a", "b"])
    (last,) = flow.finish()

    counts = flow.statistics
    assert (last.text, counts.allocations, counts.live) == ("ab", 3, 0)
    assert flow.statistics is counts
