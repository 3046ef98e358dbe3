"""A flow as a service: what its config gives every request, and which flows are none."""

from __future__ import annotations

import asyncio

import pytest
from observed_engines import nothing_runs, wait_until

import torvyn
from torvyn.engine import Engine, Request, Scripted, Service, Step
from torvyn.engine.step import ChoiceStep
from torvyn.errors import LinkError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
CONFIG = '{ text = "One badword two. Three four.", max_tokens = 4, stop = ["Three"] }'
SERVICE = {
    "model": f'component = "engine:scripted"\nconfig = {CONFIG}',
    "policy": 'component = "blocklist"\n'
    'config = { words = ["badword"], mode = "stream", action = "replace" }',
    "answer": 'component = "response"',
}
CHAIN = [("model", "policy"), ("policy", "answer")]


def plan(tmp_path, nodes=None, edges=CHAIN):
    nodes = SERVICE if nodes is None else nodes
    text = HEAD + "".join(f"[flow.chat.nodes.{name}]\n{body}\n" for name, body in nodes.items())
    text += "".join(f'[[flow.chat.edges]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in edges)
    (tmp_path / "Torvyn.toml").write_text(text)
    return torvyn.load(tmp_path / "Torvyn.toml").flow("chat").plan


class RecordingEngine(Engine):
    """Keeps the requests it gets."""

    name = "recording"

    def __init__(self):
        super().__init__()
        self.requests: list[Request] = []

    async def steps(self, request):
        self.requests.append(request)
        yield Step((ChoiceStep(text="yes", finish_reason="stop"),))


def test_an_answer_comes_through_the_flow_with_the_defaults_of_its_config(tmp_path):
    with Service.open(plan(tmp_path)) as service:
        answer = service.generate("x").complete()

    assert (answer.text, answer.choices[0].matched_stop) == ("One *** two. ", "Three")


def test_what_a_request_says_counts_more_than_the_config(tmp_path):
    with Service.open(plan(tmp_path)) as service:
        assert service.generate("x", max_tokens=1).complete().finish_reason == "length"
        asked = Request.make("x", stop=["two"])
        assert service.generate(asked).complete().text == "One *** "
        assert service.generate(Request.make("x")).complete().text == "One *** two. "


def test_many_requests_share_the_engine_and_nothing_else(tmp_path):
    async def many(service):
        asks = [service.generate("x", n=2, stop=["never"]).acomplete() for _ in range(20)]
        return {choice.text for answer in await asyncio.gather(*asks) for choice in answer.choices}

    with Service.open(plan(tmp_path)) as service:
        assert asyncio.run(many(service)) == {"One *** two. Three"}
        wait_until(lambda: nothing_runs(service.engine))


def test_a_flow_without_anything_between_is_a_service(tmp_path):
    nodes = {name: SERVICE[name] for name in ("model", "answer")}
    with Service.open(plan(tmp_path, nodes, [("model", "answer")])) as service:
        assert "badword" in service.generate("x").complete().text


def test_messages_of_the_config_come_before_those_of_the_request():
    engine = RecordingEngine()
    system = {"role": "system", "content": "Be brief."}
    service = Service("chat", engine, {"messages": [system], "temperature": 0.5})
    service.generate("Hi").complete()
    service.generate([{"role": "user", "content": "Ho"}], temperature=0).complete()
    service.generate(Request.make("Ha", seed=3)).complete()

    said = [[message["content"] for message in asked.messages] for asked in engine.requests]
    assert said == [["Be brief.", "Hi"], ["Be brief.", "Ho"], ["Be brief.", "Ha"]]
    assert [asked.temperature for asked in engine.requests] == [0.5, 0, 0.5]
    assert engine.requests[2].seed == 3


def test_the_id_of_a_request_is_kept():
    service = Service("chat", Scripted("a"))

    assert service.generate(Request.make("x", request_id="mine")).request_id == "mine"


def test_a_closed_service_answers_nobody(tmp_path):
    service = Service.open(plan(tmp_path))
    service.close()

    with pytest.raises(torvyn.Unavailable, match="closed"):
        service.generate("x").complete()


LINES = 'component = "lines"\nconfig = { path = "in.txt" }'
UNFIT = {
    "no engine": ({**SERVICE, "model": LINES}, CHAIN, "needs exactly one source: an engine"),
    "two sources": (
        {**SERVICE, "other": SERVICE["model"]},
        [*CHAIN, ("other", "policy")],
        "needs exactly one source: an engine",
    ),
    "no response": (
        {**SERVICE, "answer": 'component = "console"'},
        CHAIN,
        "needs exactly one sink `response`, and has 0",
    ),
    "two responses": (
        {**SERVICE, "second": SERVICE["answer"]},
        [*CHAIN, ("policy", "second")],
        "needs exactly one sink `response`, and has 2",
    ),
    "two ways from the engine": (
        {**SERVICE, "second": SERVICE["policy"]},
        [*CHAIN, ("model", "second"), ("second", "answer")],
        "engine must have one outgoing edge",
    ),
    "past the guards": (
        SERVICE,
        [*CHAIN, ("model", "answer")],
        "engine must have one outgoing edge",
    ),
    "a second sink": (
        {**SERVICE, "copy": 'component = "null"'},
        [*CHAIN, ("policy", "copy")],
        "must send only to the response",
    ),
    "a sink beside the engine": (
        {**SERVICE, "copy": 'component = "null"'},
        [*CHAIN, ("model", "copy")],
        "engine must have one outgoing edge",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_flow_that_is_no_service_is_refused_with_the_reason(tmp_path, case):
    nodes, edges, reason = UNFIT[case]

    with pytest.raises(LinkError, match=reason) as raised:
        Service.open(plan(tmp_path, nodes, edges))
    assert raised.value.code == "engine.flow-unfit"
    assert "flow `chat`" in str(raised.value)
