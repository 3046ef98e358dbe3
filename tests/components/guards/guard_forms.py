"""The forms of a guard that tests compare: native, in Python, and on a thread."""

import pytest

import torvyn

STREAM = {"words": ["secret"], "mode": "stream", "action": "replace"}


def in_python(cls):
    """The same guard as a component in Python."""
    return type("Own", (cls,), {})


def on_a_thread(cls):
    return type("Own", (cls,), {"run": "thread"})


all_forms = pytest.mark.parametrize(
    "form", [lambda cls: cls, in_python, on_a_thread], ids=["native", "python", "thread"]
)


def run_guard(guard, tokens):
    """The texts that leave, and the flow."""
    flow = torvyn.Flow(tokens, guard)
    return [element.text for element in flow], flow
