"""The ledger: every payload has an owner, is counted once and let go of, however the flow ends."""

import random

import pytest

import torvyn
from torvyn.components import Blocklist, Scripted, Sentence
from torvyn.errors import Internal
from torvyn.testing import VARIANTS, CollectingSink, StallingSink, as_variant, idle, run_flow

TOKENS, SENTENCES = 20, 3


def seed_flow():
    return torvyn.load("examples/token-streaming").flow("main")


def built_in_flow(variant, sink):
    stages = [Scripted(), Blocklist("blocked_word"), Sentence({"mode": "simple"}), sink]
    return torvyn.Flow(*(as_variant(stage, variant) for stage in stages))


def assert_ledger(statistics):
    nodes = statistics.nodes
    assert nodes["source"].allocations == TOKENS
    assert nodes["filter"].allocations == 0
    assert nodes["aggregator"].allocations == SENTENCES
    assert statistics.allocations == statistics.releases == TOKENS + SENTENCES
    assert statistics.live == 0
    assert all(node.live_bytes == node.held_bytes == 0 for node in nodes.values())


@pytest.mark.promise("edge.accounting", "tokens.filter-allocations")
def test_the_seed_flow_allocates_23_and_releases_23(capsys):
    assert_ledger(seed_flow().run())


@pytest.mark.promise("tokens.built-ins", "tokens.filter-allocations")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_built_in_parts_account_alike_wherever_they_run(variant):
    with run_flow(built_in_flow(variant, CollectingSink())) as run:
        assert_ledger(run.statistics)


@pytest.mark.parametrize("variant", VARIANTS)
def test_cancelled_at_any_sentence_nothing_is_alive(variant):
    for taken in range(SENTENCES):
        with run_flow(built_in_flow(variant, StallingSink(after=taken)), until=idle) as run:
            run.cancel()
            assert run.state == "cancelled"
            assert run.statistics.live == 0
            assert all(
                node.live_bytes == node.held_bytes == 0 for node in run.statistics.nodes.values()
            )


@pytest.mark.promise("edge.accounting")
@pytest.mark.parametrize("at", range(TOKENS))
def test_cancelled_at_any_token_nothing_is_alive(at):
    def cancel(element):
        if element.sequence == at:
            flow.cancel()
        return True

    sentence = Sentence({"mode": "simple"})
    flow = torvyn.Flow(Scripted(), torvyn.filter(cancel), sentence, CollectingSink())
    flow.run()

    assert flow.state == "cancelled"
    assert flow.statistics.live == 0


@pytest.mark.promise("edge.accounting")
@pytest.mark.parametrize("role", ["filter", "aggregator"])
def test_failed_at_any_token_nothing_is_alive(role):
    for at in range(TOKENS):
        flow = torvyn.Flow(*failing_chain(role, at))
        with pytest.raises(Internal):
            flow.run()
        assert flow.state == "failed"
        assert flow.statistics.live == 0


def failing_chain(role, at):
    def fail(element):
        if element.sequence == at:
            raise Internal("here")
        return True

    class Failing(torvyn.Aggregator):
        def ingest(self, element):
            return "x" if fail(element) else None

    middle = torvyn.filter(fail) if role == "filter" else Failing()
    return Scripted(), middle, CollectingSink()


def test_left_by_its_caller_nothing_is_alive():
    for leave_at in range(SENTENCES):
        flow = torvyn.Flow(Scripted(), Blocklist("blocked_word"), Sentence({"mode": "simple"}))
        for number, _ in enumerate(flow):
            if number == leave_at:
                break
        assert flow.statistics.live == 0


def test_native_bytes_read_by_python_are_copied_once_and_counted():
    sink = CollectingSink()
    flow = torvyn.Flow(Scripted({"tokens": ["hello", "you"]}), sink)
    flow.run()
    assert flow.statistics.copies == 0

    def read(element):
        return bool(element.text and element.text)

    flow = torvyn.Flow(
        Scripted({"tokens": ["hello", "you"]}), torvyn.filter(read), CollectingSink()
    )
    statistics = flow.run()

    assert statistics.nodes["filter"].copies["native-to-host"] == 2
    assert statistics.nodes["filter"].copied_bytes == len("helloyou")


@pytest.mark.promise("tokens.one-copy")
def test_python_text_stays_where_it_is_between_python_stages():
    flow = torvyn.Flow(["a" * 1000] * 5, torvyn.filter(lambda e: bool(e.text)), CollectingSink())

    assert flow.run().copies == 0


@pytest.mark.promise("tokens.memory")
def test_the_aggregators_peak_is_at_most_twice_the_longest_sentence():
    random.seed(7)
    words = [" word", " a", " streaming", " of", " considerable", " é"]
    sentences = [[*random.choices(words, k=random.randrange(1, 40)), "."] for _ in range(500)]
    tokens = [token for sentence in sentences for token in sentence]
    repeat = 1_000_000 // len(tokens) + 1
    flow = torvyn.Flow()
    flow.add("source", Scripted({"tokens": tokens, "repeat": repeat}))
    flow.add("aggregator", Sentence({"mode": "simple"})).add("sink", "null")
    flow.connect("source", "aggregator").connect("aggregator", "sink")

    statistics = flow.run()

    longest_bytes = max(len("".join(sentence).encode()) for sentence in sentences)
    assert statistics.produced >= 1_000_000
    assert statistics.nodes["aggregator"].peak_held_bytes <= 2 * longest_bytes
    assert statistics.live == 0
