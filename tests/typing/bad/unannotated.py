"""Without annotations: pyright finds the mistake in the body, mypy asks for annotations."""

import torvyn


class TextFilter(torvyn.Filter):
    def evaluate(self, element):  # error: untyped
        return element.text


class Length(torvyn.Processor):
    def process(self, element):  # error: untyped
        return len(element)
