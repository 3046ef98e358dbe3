"""What each role may answer, and what reaches the next stage: the same wherever the stage runs."""

import pytest

import torvyn
from torvyn import End, Output
from torvyn.errors import ContractError, Internal
from torvyn.testing import CollectingSink, ScriptedSource, StallingSink, idle

ABC = ("a", "b", "c")


def test_elements_arrive_in_order_with_their_numbers(run_flow):
    run = run_flow(ScriptedSource(ABC))

    assert run.texts == list(ABC)
    assert [element.sequence for element in run.elements] == [0, 1, 2]
    assert run.end == End("stop")


@pytest.mark.promise("tokens.source-numbers")
def test_a_dropped_element_leaves_a_gap_in_the_numbers(run_flow):
    run = run_flow(ScriptedSource("abcde"), torvyn.filter(lambda e: e.text not in "bd"))

    assert [(e.sequence, e.text) for e in run.elements] == [(0, "a"), (2, "c"), (4, "e")]


@pytest.mark.promise("tokens.empty-input")
def test_an_empty_source_completes_without_an_element(run_flow):
    sink = CollectingSink()

    run = run_flow(ScriptedSource([]), torvyn.filter(lambda e: True), Threes(), sink)

    assert (sink.elements, sink.end) == ([], End("stop"))
    assert (run.state, run.statistics.produced, run.statistics.emitted) == ("completed", 0, 0)


@pytest.mark.promise("tokens.content-type")
def test_attributes_and_content_type_reach_the_sink(run_flow):
    made = Output(b"{}", content_type="application/json", attributes={"choice": 2})

    run = run_flow(ScriptedSource([made]), torvyn.filter(lambda e: True))

    (element,) = run.elements
    assert dict(element.attributes) == {"choice": 2}
    assert element.content_type == "application/json"
    assert bytes(element.data) == b"{}"


def test_a_processor_keeps_the_attributes_unless_it_replaces_them(run_flow):
    def process(element):
        if element.text == "a":
            return "A"
        return Output("B", attributes={"kind": "new"})

    source = ScriptedSource([Output(t, attributes={"kind": "old"}) for t in "ab"])

    run = run_flow(source, torvyn.processor(process))

    assert [e.attributes["kind"] for e in run.elements] == ["old", "new"]


def test_the_context_names_the_flow(run_flow):
    (element,) = run_flow(ScriptedSource(["a"]), name="talk").elements

    assert element.context.flow_name == "talk"
    assert len(element.context.trace_id) == 32


def test_the_end_of_the_source_reaches_the_sink_and_the_flow(run_flow):
    end = End("length", usage={"completion_tokens": 3}, matched_stop="###")
    sink = CollectingSink()

    run = run_flow(ScriptedSource(ABC, end=end), torvyn.filter(lambda e: True), sink)

    assert sink.end == end
    assert run.end == end


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda e: None, []),
        (lambda e: e.text.upper(), ["A", "B"]),
        (lambda e: e, ["a", "b"]),
        (lambda e: [e.text, e.text + "!"], ["a", "a!", "b", "b!"]),
        (lambda e: (), []),
        (lambda e: (e.text * n for n in (1, 2, 3)), ["a", "aa", "aaa", "b", "bb", "bbb"]),
        (lambda e: e.text.encode(), ["a", "b"]),
    ],
    ids=["none", "one", "itself", "list", "empty", "generator", "bytes"],
)
def test_a_processor_emits_none_one_or_many(run_flow, answer, expected):
    assert run_flow(ScriptedSource("ab"), torvyn.processor(answer)).texts == expected


def test_a_generator_of_a_processor_is_not_run_ahead_of_the_queue(run):
    made = []

    def process(element):
        for number in range(1000):
            made.append(number)
            yield str(number)

    class Taking(torvyn.Sink):
        def push(self, element):
            return torvyn.Signal.PAUSE

    run(ScriptedSource("a"), torvyn.processor(process), Taking(), capacity=4, until=idle)

    # 1 in the sink's hand, 4 in the queue.
    assert len(made) == 1 + 4


class Pairs(torvyn.Processor):
    """Keeps every second element back for the next call, and the last for the flush."""

    def init(self, config):
        self.held = None

    def process(self, element):
        if self.held is None:
            self.held = element.text
            return None
        both, self.held = self.held + element.text, None
        return both

    def flush(self):
        return [self.held] if self.held is not None else []


def test_a_processor_flushes_when_its_input_ends(run_flow):
    assert run_flow(ScriptedSource(ABC), Pairs()).texts == ["ab", "c"]


def test_a_flush_may_give_one_text_or_a_generator(run_flow):
    class One(torvyn.Processor):
        def process(self, element):
            return None

        def flush(self):
            return "one"

    class Many(One):
        def flush(self):
            yield from ("x", "y")

    assert run_flow(ScriptedSource("a"), One()).texts == ["one"]
    assert run_flow(ScriptedSource("a"), Many()).texts == ["x", "y"]


class Threes(torvyn.Aggregator):
    def init(self, config):
        self.texts = []

    def ingest(self, element):
        self.texts.append(element.text)
        if len(self.texts) == 3:
            return self.take()
        return None

    def take(self):
        joined = "".join(self.texts)
        self.texts.clear()
        return joined

    def flush(self):
        return [self.take()] if self.texts else []


@pytest.mark.promise("tokens.sentence-numbers")
def test_an_aggregator_numbers_its_outputs_and_flushes_the_rest(run_flow):
    run = run_flow(ScriptedSource("abcdefgh"), Threes())

    assert run.texts == ["abc", "def", "gh"]
    assert [element.sequence for element in run.elements] == [0, 1, 2]


def test_flushes_happen_in_the_order_of_the_stages(run_flow):
    assert run_flow(ScriptedSource("abcde"), Pairs(), Threes()).texts == ["abcde"]


def test_a_stream_stage_sees_the_whole_stream(run):
    def pairwise(stream):
        previous = None
        for element in stream:
            if previous is not None:
                yield previous + element.text
            previous = element.text
        yield previous + "$"

    async def shout(stream):
        async for element in stream:
            yield element.text.upper()

    assert run(ScriptedSource("abc"), torvyn.stream(pairwise)).texts == ["ab", "bc", "c$"]
    assert run(ScriptedSource("abc"), torvyn.stream(shout)).texts == ["A", "B", "C"]


@pytest.mark.parametrize("make", [list, iter, lambda items: (x for x in items)])
def test_iterables_and_iterators_are_sources(run_flow, make):
    assert run_flow(make(["a", "b"])).texts == ["a", "b"]


def test_an_async_generator_is_a_source(run):
    async def items():
        for text in ABC:
            yield text

    assert run(torvyn.source(items)).texts == list(ABC)


def test_a_generator_may_return_its_end(run_flow):
    def items():
        yield "a"
        return End("length")

    assert run_flow(torvyn.source(items)).end == End("length")


@pytest.mark.parametrize(
    ("stage", "method"),
    [
        (torvyn.filter(lambda e: "yes"), "evaluate"),
        (torvyn.filter(lambda e: None), "evaluate"),
        (torvyn.processor(lambda e: 5), "process"),
        (torvyn.processor(lambda e: ["a", 5]), "process"),
        (torvyn.aggregator(lambda e: object()), "ingest"),
        (torvyn.sink(lambda e: True), "push"),
    ],
    ids=["text-verdict", "no-verdict", "number", "number-in-list", "object", "true-from-sink"],
)
def test_an_answer_that_the_role_does_not_allow_is_a_contract_error(run_flow, stage, method):
    with pytest.raises(ContractError, match=rf"failed in `{method}` on element 0") as caught:
        run_flow(ScriptedSource("a"), stage)

    assert caught.value.code == "contract.wrong-result"


def test_a_source_that_gives_something_else_breaks_the_contract(run_flow):
    with pytest.raises(ContractError, match=r"`source` failed in `pull`"):
        run_flow(ScriptedSource([5]))


def test_any_other_exception_is_internal_and_keeps_its_traceback(run_flow):
    def broken(element):
        return {}["missing"]

    with pytest.raises(Internal, match="KeyError: 'missing'") as caught:
        run_flow(ScriptedSource("ab"), torvyn.filter(broken))

    assert caught.value.node == "filter"
    assert caught.value.sequence == 0
    assert isinstance(caught.value.__cause__, KeyError)
    names = []
    trace = caught.value.__cause__.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert "broken" in names


def test_a_source_is_not_asked_again_after_its_end(run_flow):
    class Once(torvyn.Source):
        asked = 0

        def pull(self):
            self.asked += 1
            return "a" if self.asked == 1 else None

    source, sink = Once(), StallingSink(after=0)
    run = run_flow(source, sink, capacity=1, until=idle)
    sink.release()
    run.go()

    assert source.asked == 2
