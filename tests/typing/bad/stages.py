"""Stages, elements and names that are none."""

from collections.abc import Iterator

import torvyn


def shout(element: torvyn.Element) -> str:
    return element.text.upper()


def double(number: int) -> str:
    return str(2 * number)


def numbers() -> Iterator[int]:
    yield 1


torvyn.Flow(5)  # error: argument
torvyn.Flow(["a"], None)  # error: argument
torvyn.Flow([1, 2])  # error: item
torvyn.Flow(numbers)  # error: argument
torvyn.Flow(["a"], double)  # error: argument
torvyn.source(5)  # error: argument
torvyn.source([1.5])  # error: item
torvyn.stream(shout)  # error: argument
print(torvyn.Fliter)  # error: attribute

flow = torvyn.Flow(["a"])
flow.add("numbers", 5)  # error: argument
flow.feed(5)  # error: overload
flow.feed([5])  # error: overload-item
flow.limit("10")  # error: argument
print(flow.statistics.emited)  # error: attribute
print(flow.end.finish_reason)  # error: optional

for element in flow:
    print(element.txt)  # error: attribute
    element.sequence = 5  # error: read-only
for text in flow.text():
    print(text.sequence)  # error: attribute

torvyn.Element(5)  # error: argument
torvyn.Output(5)  # error: argument
torvyn.Output("a", atributes={})  # error: arguments
torvyn.End(5)  # error: argument
torvyn.load(5)  # error: argument
