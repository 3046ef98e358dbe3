"""Requests of a service through the guards in front of its engine, and how they end."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from flow_components import STAGES, AsyncFails, Fails, Stuck, blocks
from observed_engines import Endless, Silent, nothing_runs, wait_until
from repeating_engine import Repeats, said

import torvyn
from torvyn.components import Redact
from torvyn.engine import Request, Scripted, Service
from torvyn.engine.prompt.prompt_flow import PromptGuard
from torvyn.errors import FlowError, LinkError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
NODES = {
    "question": 'component = "request"',
    "privacy": 'component = "redact"',
    "refusal": 'component = "blocklist"\n'
    'config = { words = ["secret"], mode = "stream", action = "block" }',
    "model": 'component = "engine:scripted"\nconfig = { text = "You said a badword." }',
    "policy": 'component = "blocklist"\n'
    'config = { words = ["badword"], mode = "stream", action = "replace" }',
    "answer": 'component = "response"',
}
CHAIN = ["question", "privacy", "refusal", "model", "policy", "answer"]


def plan(tmp_path, nodes=NODES, chain=CHAIN, more=()):
    text = HEAD + "".join(f"[flow.chat.nodes.{name}]\n{body}\n" for name, body in nodes.items())
    edges = [*itertools.pairwise(chain), *more]
    text += "".join(f'[[flow.chat.edges]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in edges)
    (tmp_path / "Torvyn.toml").write_text(text)
    return torvyn.load(tmp_path / "Torvyn.toml").flow("chat").plan


def guarded(*stages, roles=None):
    return PromptGuard(lambda: torvyn.Flow(*(stage() for stage in stages)), roles)


def blocking():
    return blocks("secret")


def test_a_flow_with_a_request_is_a_service(tmp_path):
    with Service.open(plan(tmp_path)) as service:
        answer = service.generate("hello").complete()
        assert (answer.text, answer.choices[0].side) == ("You said a ***.", None)

        refused = service.generate("the secret").complete()
        assert (refused.text, refused.finish_reason) == ("", "content_filter")
        assert refused.choices[0].side == "prompt"
        assert refused.usage.total_tokens == 0


def test_a_request_may_lead_straight_to_its_engine(tmp_path):
    chain = ["question", "model", "answer"]
    nodes = {name: NODES[name] for name in chain}
    with Service.open(plan(tmp_path, nodes, chain)) as service:
        assert service.generate("the secret").complete().text == "You said a badword."


def test_messages_of_the_request_node_come_first_and_are_guarded_too(tmp_path):
    nodes = {
        **NODES,
        "question": 'component = "request"\nconfig = { messages = [{ role = "system",',
    }
    nodes["question"] += ' content = "keep the secret" }] }'
    with Service.open(plan(tmp_path, nodes)) as service:
        assert service.generate("hello").complete().finish_reason == "content_filter"

    nodes["question"] = nodes["question"].removesuffix("}") + ', roles = "user" }'
    with Service.open(plan(tmp_path, nodes)) as service:
        assert service.generate("hello").complete().finish_reason == "stop"


@pytest.mark.parametrize("where", STAGES)
def test_the_prompt_goes_through_its_flow_once_whatever_the_number_of_choices(where):
    engine, made = Repeats(), []

    def make():
        made.append(torvyn.Flow(STAGES[where](), Redact()))
        return made[-1]

    service = Service("chat", engine, prompt_guard=PromptGuard(make))
    answer = service.generate("i am jo@example.org", n=3).complete()

    assert [choice.text for choice in answer.choices] == ["I AM [email]"] * 3
    assert (len(made), said(engine)) == (1, ["I AM [email]"])
    wait_until(lambda: nothing_runs(engine))


def test_every_choice_of_a_prompt_that_is_blocked_ends_as_content_filter():
    engine = Repeats()
    service = Service("chat", engine, prompt_guard=guarded(blocking))
    generation = service.generate("a secret", n=2)
    deltas = list(generation)

    assert [(d.index, d.finish_reason) for d in deltas if d.finish_reason] == [
        (0, "content_filter"),
        (1, "content_filter"),
    ]
    assert generation.filtered_side == "prompt"
    assert deltas[-1].usage.total_tokens == 0
    assert engine.requests == []


def test_an_answer_that_is_blocked_was_filtered_in_the_completion():
    through = {"make_flow": lambda: torvyn.Flow(blocks("secret"))}
    service = Service("chat", Repeats(), prompt_guard=guarded(Redact), **through)
    generation = service.generate("this is secret")

    assert generation.complete().choices[0].side == "completion"
    assert generation.filtered_side == "completion"


def test_a_whole_answer_has_no_side():
    service = Service("chat", Repeats(), prompt_guard=guarded(Redact))

    assert service.generate("Hi").complete().choices[0].side is None


def test_stop_strings_and_limits_hold_behind_a_guarded_prompt():
    service = Service("chat", Repeats(), prompt_guard=guarded(Redact))

    stopped = service.generate("one two three", stop=["two"]).complete()
    assert (stopped.text, stopped.choices[0].matched_stop) == ("one ", "two")
    assert service.generate("one two three", max_tokens=1).complete().finish_reason == "length"


@pytest.mark.parametrize("stage", [Fails, AsyncFails])
def test_a_guard_that_fails_ends_the_answer_with_its_error(stage):
    engine = Repeats()
    generation = Service("chat", engine, prompt_guard=guarded(stage)).generate("a bad thing")

    with pytest.raises(FlowError, match="a bad word"):
        list(generation)
    assert generation.finish_reasons == ("error",)
    assert engine.requests == []
    wait_until(lambda: nothing_runs(engine))


def test_an_answer_that_is_aborted_while_its_prompt_is_judged_ends_at_once():
    Stuck.begun.clear()
    engine = Repeats()
    service = Service("chat", engine, prompt_guard=guarded(Stuck))
    generation = service.generate("x")

    async def read():
        reading = asyncio.create_task(generation.acomplete())
        await asyncio.to_thread(Stuck.begun.wait, 5)
        generation.close()
        return await asyncio.wait_for(reading, 5)

    assert asyncio.run(read()).finish_reason == "cancelled"
    assert engine.requests == []
    wait_until(lambda: nothing_runs(engine))


def test_a_reader_that_is_cancelled_while_its_prompt_is_judged_leaves_nothing_behind():
    Stuck.begun.clear()
    engine = Repeats()
    generation = Service("chat", engine, prompt_guard=guarded(Stuck)).generate("x")

    async def read():
        reading = asyncio.create_task(generation.acomplete())
        await asyncio.to_thread(Stuck.begun.wait, 5)
        reading.cancel()
        await asyncio.wait({reading}, timeout=5)
        return reading.cancelled(), len(asyncio.all_tasks())

    assert asyncio.run(read()) == (True, 1)
    assert engine.requests == []
    wait_until(lambda: nothing_runs(engine))


@pytest.mark.parametrize("make", [Endless, Silent])
def test_an_abort_reaches_an_engine_behind_a_guarded_prompt(make):
    engine = make()
    generation = Service("chat", engine, prompt_guard=guarded(Redact)).generate("x")

    async def read():
        reading = asyncio.create_task(generation.acomplete())
        while not engine._runs:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        engine.abort(generation.request_id)
        return await asyncio.wait_for(reading, 5)

    assert asyncio.run(read()).finish_reason == "cancelled"
    wait_until(lambda: nothing_runs(engine))


def test_a_flow_that_has_a_source_of_its_own_guards_no_prompt():
    guard = PromptGuard(lambda: torvyn.Flow(["a"], Redact()))

    with pytest.raises(LinkError, match="a prompt cannot go through flow"):
        Service("chat", Repeats(), prompt_guard=guard).generate("x")


def test_the_id_of_the_request_is_in_the_context_of_both_flows():
    seen = []

    def look(element):
        seen.append(element.context.request_id)
        return True

    service = Service(
        "chat",
        Scripted("a b"),
        make_flow=lambda: torvyn.Flow(torvyn.filter(look)),
        prompt_guard=PromptGuard(lambda: torvyn.Flow(torvyn.filter(look))),
    )
    service.generate(Request.make("x", request_id="req-1")).complete()

    assert seen == ["req-1"] * 3


UNFIT = {
    "past the engine": ([("privacy", "answer")], "must send only to the engine"),
    "two ways from the request": (
        [("question", "refusal")],
        "must have one outgoing edge",
    ),
    "a copy of the prompt": ([("refusal", "copy")], "must send only to the engine"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_flow_whose_prompt_goes_elsewhere_too_is_not_served(tmp_path, case):
    more, reason = UNFIT[case]
    nodes = {**NODES, "copy": 'component = "null"'} if "copy" in case else NODES
    with pytest.raises(LinkError, match=reason):
        Service.open(plan(tmp_path, nodes, more=more))
