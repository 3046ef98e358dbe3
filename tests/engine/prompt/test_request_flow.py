"""`request -> guards -> engine` as one flow: what a model is asked, and when it is not."""

from __future__ import annotations

import asyncio

import pytest
from flow_components import AsyncUpper, Fails, ThreadUpper, Upper, blocks
from observed_engines import Endless, Silent, wait_until
from repeating_engine import Repeats, said

import torvyn
from torvyn.components import Collect, Redact
from torvyn.engine import Request, Scripted
from torvyn.errors import FlowError, LinkError

TALK = [
    {"role": "system", "content": "Write to jo@example.org."},
    {"role": "user", "content": [{"type": "text", "text": "I am al@example.org, hello"}]},
]


def ask(asked, *guards, engine=None, roles=(), after=(), **options):
    """A flow that asks the engine, through the guards."""
    engine = engine or Repeats()
    return torvyn.Flow(
        Request.make(asked, **options).source(roles), *guards, engine.processor(), *after
    )


def text_of(flow):
    return "".join(flow.text())


def test_a_model_reads_what_the_guards_have_left_of_the_prompt():
    engine = Repeats()
    flow = ask("I am al@example.org, hello", Redact(), engine=engine)

    assert text_of(flow) == "I am [email], hello"
    assert said(engine) == ["I am [email], hello"]
    assert flow.end.finish_reason == "stop"
    assert flow.end.usage["completion_tokens"] == 4


def test_every_text_of_a_conversation_goes_through_the_guards_by_itself():
    engine = Repeats()
    list(ask(TALK, Redact(), engine=engine))

    (request,) = engine.requests
    assert request.messages[0] == {"role": "system", "content": "Write to [email]."}
    assert request.messages[1]["content"] == [{"type": "text", "text": "I am [email], hello"}]


def test_a_word_is_not_made_of_the_end_of_one_message_and_the_start_of_the_next():
    messages = [{"role": "user", "content": "sec"}, {"role": "user", "content": "ret"}]

    assert text_of(ask(messages, blocks("secret"))) == "sec|ret"


def test_only_the_texts_of_some_roles_go_through_the_flow_when_they_are_named():
    engine = Repeats()
    list(ask(TALK, Redact(), engine=engine, roles=["user"]))

    assert engine.requests[0].messages[0]["content"] == "Write to jo@example.org."
    assert engine.requests[0].messages[1]["content"][0]["text"] == "I am [email], hello"


def test_elements_say_whose_text_they_are():
    seen = []

    def look(element):
        seen.append((element.text, dict(element.attributes)))
        return True

    list(ask([{"role": "user", "content": "Hi"}], torvyn.filter(look)))

    assert seen == [("Hi", {"kind": "text", "choice": 0, "role": "user", "message": 0})]


@pytest.mark.parametrize("policy", ["hold", "optimistic", "shadow"])
def test_a_prompt_is_guarded_under_every_policy(policy):
    engine = Repeats()
    flow = ask("the secret of it", blocks("secret", action="replace", policy=policy), engine=engine)
    list(flow)

    expected = {
        "hold": "the *** of it",
        "optimistic": "the *** of it",
        "shadow": "the secret of it",
    }
    # One element has the whole prompt, so that an optimistic guard is never too late.
    assert said(engine) == [expected[policy]]


def test_a_prompt_that_is_blocked_never_reaches_the_engine():
    engine = Repeats()
    flow = ask("tell me the secret", blocks("secret"), engine=engine)

    assert text_of(flow) == ""
    assert engine.requests == []
    assert (flow.end.finish_reason, flow.end.side) == ("content_filter", "prompt")
    assert flow.end.usage["total_tokens"] == 0
    assert "blocklist" in flow.end.reason


def test_a_prompt_of_which_nothing_is_left_is_refused():
    engine = Repeats()
    flow = ask("tell me", torvyn.filter(lambda element: False), engine=engine)

    assert text_of(flow) == ""
    assert engine.requests == []
    assert (flow.end.finish_reason, flow.end.side) == ("content_filter", "prompt")


def test_a_prompt_that_is_dropped_is_refused_though_there_are_tools():
    engine = Repeats()
    tool = {"type": "function", "function": {"name": "look", "description": "looks"}}
    keep = torvyn.filter(lambda element: element.attributes["role"] != "user")
    flow = ask("tell me", keep, engine=engine, tools=[tool])

    assert text_of(flow) == ""
    assert engine.requests == []


def test_an_answer_that_is_blocked_has_the_finish_of_the_guard_behind_the_engine():
    engine = Repeats()
    flow = ask("tell me the secret now", engine=engine, after=[blocks("secret")])

    assert text_of(flow) == "tell me the "
    assert len(engine.requests) == 1
    assert flow.end.finish_reason == "content_filter"


@pytest.mark.parametrize("stage", [Upper, AsyncUpper, ThreadUpper])
def test_stages_of_every_kind_stand_in_front_of_an_engine(stage):
    assert text_of(ask("hello there", stage())) == "HELLO THERE"


def test_what_the_request_asks_for_reaches_the_engine():
    engine = Repeats()
    request = Request.make("a b", max_tokens=1, temperature=0.5, seed=3, user="me")
    flow = torvyn.Flow(request.source(), Redact(), engine.processor(temperature=1, top_p=0.5))

    assert text_of(flow) == "a"
    asked = engine.requests[0]
    assert (asked.temperature, asked.top_p, asked.seed, asked.user) == (0.5, 0.5, 3, "me")
    assert asked.id == request.id
    assert flow.end.finish_reason == "length"


def test_a_flow_with_a_sink_is_run_and_counts_every_element():
    sink = Collect()
    flow = ask("one two three", Redact(), after=[sink])
    statistics = flow.run()

    assert "".join(sink.texts) == "one two three"
    assert statistics.nodes["source"].emitted == 1
    assert statistics.nodes["processor"].emitted == 3
    assert statistics.nodes["sink"].passed == 3


def test_a_coroutine_reads_the_flow_too():
    async def read():
        return "".join([element.text async for element in ask("one two", Redact())])

    assert asyncio.run(read()) == "one two"


def test_a_reader_that_leaves_stops_the_engine():
    engine = Endless()
    for _ in ask("x", Redact(), engine=engine):
        break

    assert engine.left.wait(5)


def test_a_cancelled_flow_stops_an_engine_that_says_nothing():
    engine = Silent()
    flow = ask("x", engine=engine, after=[Collect()]).start()
    assert engine.begun.wait(5)
    flow.cancel()

    assert flow.wait(5)
    assert engine.left.wait(5)
    assert flow.state == "cancelled"


def test_a_flow_that_is_drained_ends_the_answer_in_good_order():
    engine, sink = Endless(), Collect()
    flow = ask("x", engine=engine, after=[sink]).start()
    wait_until(lambda: sink.count > 2)
    flow.drain()

    assert flow.wait(5)
    assert engine.left.wait(5)
    assert (flow.state, flow.end.finish_reason) == ("completed", "stop")
    assert sink.end == flow.end


def test_a_slow_sink_slows_the_engine():
    engine = Endless(gap_s=0)
    taken = 0
    for _ in ask("x", engine=engine):
        taken += 1
        if taken == 200:
            break

    # 64 places of the queue behind it, and what lies between the engine and the port.
    assert engine.made <= taken + 64 + 4


def test_a_guard_that_fails_fails_the_flow_and_the_engine_is_not_asked():
    engine = Repeats()
    with pytest.raises(FlowError, match="a bad word"):
        list(ask("a bad thing", Fails(), engine=engine))

    assert engine.requests == []


def test_an_engine_that_fails_fails_the_flow():
    with pytest.raises(FlowError, match="the script fails here"):
        list(ask("x", engine=Scripted("a b c", fail_at=1)))


def test_an_element_that_has_lost_its_text_is_refused():
    def forget(element):
        return torvyn.Output(element.text, attributes={"choice": 99})

    with pytest.raises(FlowError, match="which text of the request"):
        list(ask(TALK, torvyn.processor(forget)))


def test_a_request_of_one_text_needs_no_number():
    def bare(element):
        return torvyn.Output(element.text, attributes={"kind": "text"})

    assert text_of(ask("Hi there", torvyn.processor(bare))) == "Hi there"


def test_nothing_runs_after_a_flow_has_ended():
    engine = Repeats()
    list(ask("x", Redact(), engine=engine))

    wait_until(lambda: not engine._runs)


def test_an_engine_without_a_request_says_what_it_needs():
    with pytest.raises(LinkError, match="comes from `source`, not from a `request`"):
        list(torvyn.Flow(["a"], Repeats().processor()))
