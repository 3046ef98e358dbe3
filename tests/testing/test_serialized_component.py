"""Serialized components: what arrives in a guest, and what cannot be serialized."""

from __future__ import annotations

import base64
import io
import pickle
import threading
from typing import Any

import pytest

import torvyn
from torvyn.testing import CountingSource, as_variant
from torvyn.testing._sandbox_variant import NotSerializable, serialize

FACTOR = 3


def deserialized(component: Any) -> Any:
    """The component as a guest would create it, but in this process."""
    serialized, _ = serialize(component)
    cls, state = pickle.Unpickler(io.BytesIO(base64.b85decode(serialized))).load()
    made = cls.__new__(cls)
    vars(made).update(state)
    return made


def element(text: str) -> Any:
    return torvyn.Element(text)


def test_a_local_class_arrives_with_its_bases_and_what_its_methods_name() -> None:
    suffix = "!"

    class Loud(torvyn.Processor):
        def process(self, element: Any) -> str:
            return element.text * FACTOR + suffix

    class Louder(Loud):
        def process(self, element: Any) -> str:
            return super().process(element).upper()

    made = deserialized(Louder())

    assert type(made) is not Louder
    assert made.process(element("a")) == "AAA!"


def test_lambdas_on_one_line_are_told_apart_and_keep_their_defaults() -> None:
    pair = [torvyn.filter(lambda e, n=n: len(e.text) > n) for n in (1, 2)]
    one, two = torvyn.filter(lambda e: e.text == "x"), torvyn.filter(lambda e: e.text == "y")

    assert [deserialized(each).evaluate(element("ab")) for each in pair] == [True, False]
    assert deserialized(one).evaluate(element("x"))
    assert not deserialized(two).evaluate(element("x"))


def test_the_state_of_an_object_travels() -> None:
    source = CountingSource(5)
    source.pull()

    assert deserialized(source).pull() == "1"


def test_containers_of_the_test_are_watched() -> None:
    seen: list[str] = []

    _, captured = serialize(torvyn.sink(lambda e: seen.append(e.text)))

    assert captured[0] is seen


@pytest.mark.parametrize("thing", [threading.Lock(), (n for n in "abc")], ids=["lock", "generator"])
def test_what_exists_only_here_is_refused(thing: Any) -> None:
    with pytest.raises(NotSerializable, match="cannot run in a guest: cannot pickle"):
        serialize(torvyn.filter(lambda e: thing))


def test_a_name_outside_that_is_assigned_to_is_refused() -> None:
    count = 0

    def judge(element: Any) -> bool:
        nonlocal count
        count += 1
        return True

    with pytest.raises(NotSerializable, match="assigns to a name outside itself"):
        serialize(torvyn.filter(judge))


def test_async_parts_stay_as_they_are() -> None:
    async def later(element: Any) -> bool:
        return True

    stage = torvyn.filter(later)

    assert as_variant(stage, "wasm") is stage
