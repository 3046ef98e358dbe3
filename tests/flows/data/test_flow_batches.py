"""Batch methods: a component takes what is waiting in one call."""

from __future__ import annotations

import threading

import pytest

import torvyn
from torvyn import Batch, Output, Signal, Verdict
from torvyn.testing import CollectingSink, ScriptedSource, check_account

MODES = ("inline", "thread", "async")
LETTERS = list("abcdefghij")


class BatchComponent:
    """Records the sizes of its batches; on a thread or a loop if told to."""

    def act(self, mode="inline", **errors):
        self.sizes: list[int] = []
        self.errors = errors
        if mode == "thread":
            self.run = "thread"
        return self


class Upper(BatchComponent, torvyn.Processor):
    def process_batch(self, elements):
        self.sizes.append(len(elements))
        return [self.errors.get(text, text.upper()) for text in elements.texts]


class AsyncUpper(Upper):
    async def process_batch(self, elements):
        return super().process_batch(elements)


class Numbered(torvyn.Sink):
    """Pushes a whole batch, or fails before it has accepted any of it."""

    run = "thread"

    def __init__(self, bad=()):
        super().__init__()
        self.bad, self.got, self.calls = set(bad), [], []

    def push_batch(self, elements):
        self.calls.append(len(elements))
        if self.bad & set(elements.texts):
            raise torvyn.Unavailable("not now")
        self.got += elements.texts


def upper(mode, **errors):
    return (AsyncUpper if mode == "async" else Upper)().act(mode, **errors)


def run(*components, **options):
    flow = torvyn.Flow(*components, **options)
    flow.run()
    check_account(flow.statistics)
    return flow


@pytest.mark.parametrize("mode", MODES)
def test_a_component_with_only_the_batch_method_processes_every_element(mode):
    sink = CollectingSink()

    run(ScriptedSource(LETTERS * 20), upper(mode), sink)

    assert sink.texts == [letter.upper() for letter in LETTERS * 20]


def test_a_batch_is_what_waits_and_a_call_never_waits_for_more():
    component = upper("inline")

    flow = torvyn.Flow(component)
    flow.feed("a")
    assert component.sizes == [1]
    flow.feed(LETTERS)

    assert component.sizes == [1, len(LETTERS)]


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_in_the_result_is_the_error_of_its_element(mode):
    sink, letters = CollectingSink(), CollectingSink()
    flow = torvyn.Flow()
    flow.add("source", ScriptedSource(LETTERS))
    policy = {"policy": "dead-letter", "to": "letters"}
    flow.add("upper", upper(mode, c=torvyn.InvalidInput("c"), h=ValueError("h")), on_error=policy)
    flow.add("sink", sink)
    flow.add("letters", letters)
    flow.connect("source", "upper").connect("upper", "sink")
    flow.run()

    assert sink.texts == list("ABDEFGIJ")
    assert letters.texts == ["c", "h"]
    check_account(flow.statistics)


@pytest.mark.parametrize("mode", MODES)
def test_elements_after_one_that_is_retried_keep_their_results_and_their_order(mode):
    component = upper(mode, c=torvyn.Unavailable("once"))
    calls = []

    def process_batch(elements):
        calls.extend(elements.texts)
        if calls.count("c") == 2:
            component.errors = {}
        return Upper.process_batch(component, elements)

    async def process_async(elements):
        return process_batch(elements)

    component.process_batch = process_async if mode == "async" else process_batch
    sink, flow = CollectingSink(), torvyn.Flow()
    flow.add("source", ScriptedSource(LETTERS))
    flow.add("upper", component, on_error={"policy": "retry", "max": 3, "backoff": 0.001})
    flow.add("sink", sink)
    flow.connect("source", "upper").connect("upper", "sink")
    flow.run()

    assert sink.texts == [letter.upper() for letter in LETTERS]
    assert calls.count("c") == 2
    assert all(calls.count(letter) == 1 for letter in LETTERS if letter != "c")


def test_after_a_batch_that_raises_each_element_is_called_for_alone():
    sink = Numbered(bad="d")
    flow = torvyn.Flow()
    flow.add("source", ScriptedSource(LETTERS))
    flow.add("sink", sink, on_error="skip")
    flow.connect("source", "sink")
    flow.run()

    assert sink.got == [letter for letter in LETTERS if letter != "d"]
    assert flow.statistics.nodes["sink"].failed == 1
    check_account(flow.statistics)


def test_a_fatal_error_stops_the_flow_at_the_first_element_of_its_batch():
    class Broken(torvyn.Sink):
        def push_batch(self, elements):
            raise torvyn.Fatal("the disk is gone")

    flow = torvyn.Flow(ScriptedSource(LETTERS), Broken())

    with pytest.raises(torvyn.TorvynError, match="the disk is gone"):
        flow.run()
    check_account(flow.statistics)
    assert flow.statistics.emitted == 0


def test_a_filter_returns_a_verdict_for_each_element():
    class Judge(torvyn.Filter):
        def evaluate_batch(self, elements):
            verdicts = {"b": False, "d": Verdict.replace("D"), "f": Verdict.hold()}
            return [verdicts.get(text, True) for text in elements.texts]

    sink = CollectingSink()
    flow = run(ScriptedSource(LETTERS), Judge(), sink)

    assert sink.texts == ["a", "c", "D", "e", "f", "g", "h", "i", "j"]
    assert flow.statistics.nodes["filter"].filtered == 1


def test_a_filter_that_blocks_leaves_the_rest_of_its_batch_unread():
    class Wall(torvyn.Filter):
        def evaluate_batch(self, elements):
            return [Verdict.block("enough") if text == "c" else True for text in elements.texts]

    sink = CollectingSink()
    flow = torvyn.Flow(ScriptedSource(LETTERS), Wall(), sink)
    flow.run()

    assert sink.texts == ["a", "b"]
    check_account(flow.statistics)


@pytest.mark.parametrize("result", [None, [], [None], ["x", Output("y")]])
def test_an_aggregator_returns_any_number_of_outputs_for_a_batch(result):
    class Count(torvyn.Aggregator):
        def ingest_batch(self, elements):
            return result

    sink = CollectingSink()
    flow = torvyn.Flow(Count(), sink)
    flow.feed(LETTERS)
    flow.finish()

    assert sink.texts == [text for text in ("x", "y") if result and len(result) == 2]
    check_account(flow.statistics)


def test_a_sink_that_pauses_after_a_batch_has_accepted_all_of_it():
    class Pausing(torvyn.Sink):
        def init(self, config):
            self.batches = []

        def push_batch(self, elements):
            self.batches.append(elements.texts)
            threading.Timer(0.001, self.resume).start()
            return Signal.PAUSE

    sink = Pausing()
    run(ScriptedSource(LETTERS), sink)

    assert [text for batch in sink.batches for text in batch] == LETTERS


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (["x"], "returned a list of 1 for 10 elements"),
        ("x", "returned str, expected a list"),
        ((item for item in "x"), "returned generator, expected a list"),
    ],
)
def test_a_result_without_an_entry_for_each_element_breaks_the_contract(result, message):
    class Wrong(torvyn.Processor):
        def process_batch(self, elements):
            return result

    flow = torvyn.Flow(Wrong())

    with pytest.raises(torvyn.TorvynError, match=message):
        flow.feed(LETTERS)


def test_a_subclass_that_overrides_only_the_single_method_is_called_for_each_element():
    class Lower(Upper):
        def process(self, element):
            return element.text.lower()

    sink = CollectingSink()
    run(ScriptedSource(["A", "B"] * 10), Lower().act(), sink)

    assert sink.texts == ["a", "b"] * 10


def test_a_processor_passes_an_element_on_by_returning_it():
    class Same(torvyn.Processor):
        def process_batch(self, elements):
            return list(elements)

    sink = CollectingSink()
    flow = run(ScriptedSource(LETTERS), Same(), sink)

    assert sink.texts == LETTERS
    assert flow.statistics.nodes["processor"].passed == len(LETTERS)


def test_a_batch_that_is_kept_stays_readable_after_its_call():
    class Keeping(torvyn.Sink):
        def init(self, config):
            self.kept: list[Batch] = []

        def push_batch(self, elements):
            self.kept.append(elements)

    sink = Keeping()
    run(ScriptedSource(LETTERS * 3), sink)

    assert [text for batch in sink.kept for text in batch.texts] == LETTERS * 3


def test_another_thread_may_not_read_a_batch_during_its_call():
    class Sharing(torvyn.Sink):
        def init(self, config):
            self.errors = []

        def push_batch(self, elements):
            thread = threading.Thread(target=self.read, args=(elements,))
            thread.start()
            thread.join()

        def read(self, elements):
            try:
                len(elements)
            except RuntimeError as error:
                self.errors.append(str(error))

    sink = Sharing()
    flow = torvyn.Flow(sink)
    flow.feed(LETTERS)
    flow.finish()

    assert "pass it `list(elements)`" in sink.errors[0]
