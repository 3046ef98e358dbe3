"""`pull_batch`: a source returns several elements in one call."""

from __future__ import annotations

import pytest

import torvyn
from torvyn import PENDING, End, Output
from torvyn.errors import ContractError, Unavailable
from torvyn.testing import Clock, CollectingSink, check_account

MODES = ("inline", "thread", "async")
TEXTS = [f"t{number}" for number in range(300)]


class Batches(torvyn.Source):
    """Returns its texts in batches and records how many it was asked for."""

    def __init__(self, texts=TEXTS, size=1000):
        super().__init__()
        self.texts, self.size, self.asked = list(texts), size, []

    def pull_batch(self, most):
        self.asked.append(most)
        count = min(most, self.size)
        taken, self.texts = self.texts[:count], self.texts[count:]
        return taken or None


class AsyncBatches(Batches):
    async def pull_batch(self, most):
        return super().pull_batch(most)


class Answers(Batches):
    """Returns these results, then the end."""

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def pull_batch(self, most):
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


class UpperBatches(torvyn.Processor):
    def process_batch(self, elements):
        return [text.upper() for text in elements.texts]


def source(mode, *arguments):
    made = (AsyncBatches if mode == "async" else Batches)(*arguments)
    if mode == "thread":
        made.run = "thread"
    return made


def run(*components, **options):
    sink = CollectingSink()
    flow = torvyn.Flow(*components, sink, **options)
    flow.run()
    check_account(flow.statistics)
    return sink, flow


@pytest.mark.parametrize("mode", MODES)
def test_every_element_of_every_batch_arrives_in_order(mode):
    sink, flow = run(source(mode))

    assert sink.texts == TEXTS
    assert [element.sequence for element in sink.elements] == list(range(len(TEXTS)))
    assert flow.statistics.produced == len(TEXTS)


@pytest.mark.parametrize("mode", MODES)
def test_a_source_is_asked_for_no_more_than_fits_into_its_queue(mode):
    made = source(mode)

    sink, _ = run(made, UpperBatches(), queue_depth=7)

    assert sink.texts == [text.upper() for text in TEXTS]
    assert max(made.asked) <= 7


def test_batches_grow_up_to_the_capacity_of_the_queue():
    made = source("inline")

    # No time passes, so every sweep is short.
    run(made, UpperBatches(), queue_depth=128, clock=Clock())

    assert made.asked[:8] == [1, 2, 4, 8, 16, 32, 64, 128]


@pytest.mark.parametrize("mode", MODES)
def test_a_short_batch_is_sent_on_before_the_source_is_asked_again(mode):
    sink, _ = run(source(mode, TEXTS, 3), UpperBatches())

    assert sink.texts == [text.upper() for text in TEXTS]


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_batch_may_contain_everything_that_a_source_may_send(mode):
    output = Output("c", content_type="text/csv")
    made = Answers(["a"], [b"b", output], ("é",), End("length"))
    made.run = mode

    sink, _ = run(made, clock=Clock())

    assert [bytes(element.data) for element in sink.elements] == [b"a", b"b", b"c", "é".encode()]
    assert sink.elements[2].content_type == "text/csv"
    assert sink.end == End("length")


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_source_without_elements_is_pending(mode):
    made = Answers(["a"], PENDING.after(0.001), ["b"])
    made.run = mode

    assert run(made)[0].texts == ["a", "b"]


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ([], "returned an empty list; return PENDING if nothing is ready, None at the end"),
        ("text", "returned str, expected a list of str, bytes, dicts, dataclasses or Output"),
        (
            [None],
            "returned NoneType, expected str, bytes, a dict, a dataclass or Output as ",
        ),
        (["x"] * 2000, r"returned 2000 elements, but it may return at most \d+"),
    ],
)
def test_a_wrong_result_fails_the_flow_and_says_what_is_expected(mode, answer, problem):
    made = Answers(answer)
    made.run = mode

    with pytest.raises(ContractError, match=problem):
        run(made)


@pytest.mark.parametrize("mode", MODES[:2])
def test_elements_before_a_wrong_item_are_sent(mode):
    made, sink = Answers(["a"], ["b", 3]), CollectingSink()
    made.run = mode

    with pytest.raises(ContractError):
        torvyn.Flow(made, sink, clock=Clock()).run()

    assert sink.texts == ["a", "b"]


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_call_that_fails_is_retried(mode):
    made = Answers(["a"], Unavailable("hiccup"), ["b"])
    made.run = mode

    sink, flow = run(made, on_error={"policy": "retry", "max": 1, "backoff": 0})

    assert sink.texts == ["a", "b"]
    assert flow.statistics.nodes["source"].retried == 1


@pytest.mark.parametrize("mode", MODES)
def test_acknowledgements_count_the_elements_of_batches(mode):
    made, settled = source(mode), []
    made.acknowledge = settled.append

    run(made, UpperBatches())

    assert sum(settled) == len(TEXTS)


@pytest.mark.parametrize("mode", MODES)
def test_a_limit_cuts_a_batch(mode):
    sink = CollectingSink()
    flow = torvyn.Flow(source(mode), UpperBatches(), sink)
    flow.limit(50).run()

    assert flow.statistics.produced == 50
    assert sink.texts == [text.upper() for text in TEXTS[:50]]


@pytest.mark.parametrize("mode", MODES)
def test_a_traced_source_gets_its_calls_recorded_by_element(mode):
    sink = CollectingSink()
    flow = torvyn.Flow(source(mode, TEXTS[:20]), sink)
    flow.trace(1000)
    flow.run()

    assert sink.texts == TEXTS[:20]


def test_a_subclass_that_overrides_only_pull_is_called_for_each_element():
    class Single(Batches):
        def pull(self):
            return self.texts.pop(0) if self.texts else None

    made = Single(TEXTS[:5])

    assert run(made)[0].texts == TEXTS[:5]
    assert made.asked == []


def test_a_signature_without_the_number_is_refused_before_the_start():
    class Wrong(torvyn.Source):
        def pull_batch(self):
            return None

    with pytest.raises(torvyn.TorvynError, match=r"called as `pull_batch\(most\)`"):
        run(Wrong())
