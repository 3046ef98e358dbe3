"""Deep recursion, in a guest and in data, is an error and never a signal."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty import GUESTS, Apart

DEEP = 200_000

OVERFLOW = """
try:
    list(torvyn.Flow(["stack"], part(sys.argv[1])))
except torvyn.errors.Internal as error:
    answer(str(error))
"""

JSON = """
deep = "[" * int(sys.argv[1]) + "]" * int(sys.argv[1])
from torvyn.components import JsonMap
stage = JsonMap()
stage.config = '{"set": {"a": 1}}'
try:
    answer([element.text for element in torvyn.Flow([deep], stage)])
except torvyn.errors.TorvynError as error:
    answer(type(error).__name__)
"""

MANIFEST = """
try:
    torvyn.load(sys.argv[1]).flow("main")
except torvyn.errors.TorvynError as error:
    answer([found.code for found in error.diagnostics])
"""


def test_a_guest_that_recurses_is_stopped(apart: Apart) -> None:
    assert "call stack exhausted" in apart(OVERFLOW, GUESTS["chaos"])


def test_deep_json_is_invalid_input(apart: Apart) -> None:
    assert apart(JSON, DEEP) == "InvalidInput"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP,
        "a = " + "[" * DEEP + "]" * DEEP,
        "a = " + "{a = " * DEEP + "1" + "}" * DEEP,
        "[" + ".".join("a" * DEEP) + "]\n",
        ".".join("a" * DEEP) + " = 1\n",
    ],
    ids=["open arrays", "arrays", "inline tables", "table header", "dotted key"],
)
def test_deep_toml_is_a_problem_with_a_place(apart: Apart, tmp_path: Path, text: str) -> None:
    file = tmp_path / "Torvyn.toml"
    file.write_text(text)

    assert apart(MANIFEST, file)[0] in ("manifest.too-deep", "manifest.syntax")
