"""Calls of async components that take too long are cut, and the node's policy applies."""

import asyncio

import pytest

import torvyn
from torvyn.testing import CollectingSink, ScriptedSource


class Stuck(torvyn.Processor):
    """Never comes back from the texts in `config`."""

    def init(self, config):
        self.cut = []

    async def process(self, element):
        if element.text in self.config:
            try:
                await asyncio.Event().wait()
            finally:
                self.cut.append(element.text)
        return element.text


def stuck_flow(on, stage, sink, **options):
    flow = torvyn.Flow().add("source", ScriptedSource(list(on)))
    flow.add("stage", stage, call_timeout_s=0.02, **options).add("sink", sink)
    return flow.connect("source", "stage").connect("stage", "sink")


def test_a_call_without_an_answer_fails_the_flow():
    stage = Stuck("b")

    with pytest.raises(torvyn.DeadlineExceeded, match=r"element 1: no answer within 0\.02 s"):
        stuck_flow("abc", stage, CollectingSink()).run()

    assert stage.cut == ["b"]


def test_under_skip_the_next_element_is_taken():
    stage, sink = Stuck("bc"), CollectingSink()

    statistics = stuck_flow("abcd", stage, sink, on_error="skip").run()

    assert sink.texts == ["a", "d"]
    assert stage.cut == ["b", "c"]
    assert statistics.nodes["stage"].failed == 2


def test_a_paused_sink_is_not_a_call_that_takes_too_long():
    class Pausing(CollectingSink):
        async def push(self, element):
            super().push(element)
            asyncio.get_running_loop().call_later(0.06, self.resume)
            return torvyn.Signal.PAUSE

    sink = Pausing()
    flow = torvyn.Flow().add("source", ScriptedSource(["a", "b"]))
    flow.add("sink", sink, call_timeout_s=0.02).connect("source", "sink").run()

    assert sink.texts == ["a", "b"]
