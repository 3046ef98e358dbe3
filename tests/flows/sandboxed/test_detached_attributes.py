"""Attributes in a flow without Python components, whose turns run detached from Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import torvyn
from torvyn.components.builtin.filter_redact import Redact
from torvyn.components.builtin.sink_null import Null
from torvyn.testing._sandbox_variant import as_guest

pytestmark = pytest.mark.timeout(400)

TOKENS = 200


class Tokens(torvyn.Source):
    """Sends tokens with the attributes that an engine gives them, and an address in every tenth."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(TOKENS):
            text = (
                f"write to ada{number}@example.org now. "
                if number % 10 == 0
                else f"token {number}. "
            )
            attributes = {"choice": 0, "kind": "text", "token_ids": [number], "logprobs": [-0.5]}
            yield torvyn.Output(text, attributes=attributes)


class Shout(torvyn.Filter):
    """Replaces every element: the replacement inherits its attributes."""

    def evaluate(self, element: torvyn.Element) -> Any:
        return torvyn.Verdict.replace(element.text.upper())


@pytest.mark.parametrize("on_workers", [False, True])
def test_guards_and_verdicts_read_the_attributes_of_a_guest(on_workers: bool) -> None:
    flow = torvyn.Flow(as_guest(Tokens()), Redact({}), as_guest(Shout()), Null())

    if on_workers:
        assert flow.start().wait(60)
    else:
        flow.run()

    guard, shout, sink = list(flow.statistics.nodes.values())[1:]
    assert guard.received == TOKENS
    assert sink.received == shout.received == guard.emitted
