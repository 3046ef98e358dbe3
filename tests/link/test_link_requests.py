"""Requests in flows: an engine with an input is a processor, and only a request leads to it."""

from __future__ import annotations

import itertools

import pytest

from torvyn._link.project_linker import ProjectLinker
from torvyn._manifest.parse import parse
from torvyn.errors import LinkError

HEAD = '[torvyn]\nname = "x"\nversion = "0.1.0"\ncontract_version = "0.1.0"\n'
NODES = {
    "question": '"request"',
    "guard": '"redact"',
    "model": '"engine:scripted"',
    "other": '"engine:scripted"',
    "words": '"lines"',
    "answer": '"response"',
}


def linked(*chains, **changed):
    """The plan of a flow whose nodes are those of the chains."""
    names = dict.fromkeys(name for chain in chains for name in chain.split())
    text = HEAD
    for name in names:
        text += f"[flow.main.nodes.{name}]\ncomponent = {NODES[name]}\n{changed.get(name, '')}\n"
    for chain in chains:
        nodes = chain.split()
        for source, target in itertools.pairwise(nodes):
            text += f'[[flow.main.edges]]\nfrom = "{source}"\nto = "{target}"\n'
    return ProjectLinker(parse(text)).plan()


def role(plan, name):
    return next(node.role for node in plan.nodes if node.name == name)


def test_an_engine_is_a_source_without_an_input_and_a_processor_with_one():
    assert role(linked("model guard answer"), "model") == "source"
    assert role(linked("question guard model answer"), "model") == "processor"


def test_an_engine_with_an_input_loads_a_model_as_long_as_it_takes():
    plan = linked("question model answer")

    assert next(node.init_timeout_s for node in plan.nodes if node.name == "model") is None


WRONG = {
    "question guard answer": ("link.request-unanswered", "no engine answers the request of"),
    "words model answer": ("link.engine-input", "comes from `words`, not from a `request`"),
    "model other answer": ("link.engine-input", "comes from `model`, not from a `request`"),
    "question model other answer": ("link.engine-repeated", "`other` is a second engine"),
}


@pytest.mark.parametrize("chain", WRONG)
def test_a_chain_that_no_request_can_take_is_refused_with_a_hint(chain):
    code, message = WRONG[chain]

    with pytest.raises(LinkError, match=message) as raised:
        linked(chain)
    assert raised.value.code == code
    assert "request -> guards -> engine" in str(raised.value.hint)


def test_a_request_beside_an_engine_that_asks_for_itself_is_unanswered():
    with pytest.raises(LinkError, match="no engine answers") as raised:
        linked("question answer", "model answer")

    assert "connect it to engine `model`" in str(raised.value.hint)


def test_an_engine_takes_no_text_beside_its_request():
    with pytest.raises(LinkError, match="comes from `words`"):
        linked("question model answer", "words model")


@pytest.mark.parametrize(
    "config", ['prompt = "Hi"', 'path = "a.txt"', 'messages = [{ role = "user", content = "Hi" }]']
)
def test_an_engine_with_an_input_has_no_prompt_of_its_own(config):
    with pytest.raises(LinkError, match="would never be used") as raised:
        linked("question model answer", model=f"config = {{ {config} }}")

    assert "belongs to the node `request`" in str(raised.value.hint)
