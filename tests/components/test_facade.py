"""`torvyn.components`: every built-in component under a short name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from torvyn import components
from torvyn.components import BUILTINS, CLASSES, SINKS


@pytest.mark.parametrize("target", [*BUILTINS.values(), *SINKS.values()])
def test_every_component_has_its_class_in_the_facade(target: str) -> None:
    module, _, name = target.partition(":")
    own = next(own for own, known in CLASSES.items() if known == target)

    assert getattr(components, own) is getattr(importlib.import_module(module), name)
    assert own in components.__all__


def test_the_facade_lists_what_type_checkers_see() -> None:
    tables = {"BUILTINS", "CLASSES", "ENGINES", "ENGINE_PROCESSORS", "GUARDS", "REQUEST", "SINKS"}

    assert set(components.__all__) == {*tables, *CLASSES, "Connection"}


def test_a_source_and_a_sink_of_one_name_have_two_names() -> None:
    assert components.HttpSource.role == "source"
    assert components.HttpSink.role == "sink"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Sentense'"):
        components.Sentense  # noqa: B018


def test_a_class_is_imported_when_it_is_used_first() -> None:
    code = (
        "import sys, torvyn.components as c\n"
        "print([m for m in sys.modules if m.startswith('torvyn.components.builtin')])\n"
        "c.Sentence\n"
        "print('torvyn.components.builtin.aggregator_sentence' in sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\nTrue\n"
