"""Deep recursion in a guest in Python is its own exception, and keeps what the component holds."""

from __future__ import annotations

import pytest

import torvyn
from torvyn._sandbox.build import build
from torvyn._sandbox.component import guest_class
from torvyn._sandbox.guest import deep_json
from torvyn._sandbox.project import GuestProject

pytestmark = pytest.mark.timeout(400)

SOURCE = """
import json
import socket
import torvyn

def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value

def down(depth):
    return depth and down(depth - 1)

DEEP = {
    "arrays": lambda: json.loads("[" * 100_000),
    "objects": lambda: json.loads('{"a":' * 100_000),
    "900-arrays": lambda: json.loads("[" * 900 + "]" * 900),
    "900-objects": lambda: json.loads('{"a":' * 900 + "1" + "}" * 900),
    "900-dumps": lambda: json.dumps(nested(900)),
    "900-repr": lambda: repr(nested(900)),
    "calls": lambda: down(100_000),
    "parse": lambda: compile("(" * 5_000 + ")" * 5_000, "deep", "eval"),
}

class Count(torvyn.Processor):
    def init(self, config):
        self.seen = 0

    def process(self, element):
        self.seen += 1
        if element.text == "name":
            return "www.ex\\u00e4mple.org".encode("idna").decode()
        if element.text in DEEP:
            DEEP[element.text]()
        return str(self.seen)
"""

DEEP = ["arrays", "objects", "calls", "parse"]
FITTING = ["900-arrays", "900-objects", "900-dumps", "900-repr"]


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> type:
    folder = tmp_path_factory.mktemp("count")
    (folder / "component.py").write_text(SOURCE)
    return guest_class(build(GuestProject("count", folder, "python")).path, "count", folder / "own")


@pytest.mark.full
@pytest.mark.parametrize("what", DEEP)
def test_the_state_is_kept(count: type, what: str) -> None:
    flow = torvyn.Flow(["a", what, "b"], on_error="skip")
    flow.add("count", count()).connect("source", "count")

    assert list(flow.text()) == ["1", "3"]
    health = flow.statistics.nodes["count"].guest
    assert health is not None
    assert (health.traps, health.state_lost) == (0, 0)


@pytest.mark.full
@pytest.mark.parametrize("what", FITTING)
def test_what_is_nested_900_levels_deep_is_read_and_written(count: type, what: str) -> None:
    flow = torvyn.Flow([what])
    flow.add("count", count()).connect("source", "count")

    assert list(flow.text()) == ["1"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]" * 1000, 1),
        ('["[[[[", "]"]' + "[]" * 1000, 1),
        ('{"a": "\\"[[["}' * 1000, 1),
        ("[" * 1000 + "]" * 1000, 1000),
        ('{"a":[' * 600, 1200),
    ],
)
def test_brackets_in_strings_are_no_levels(text: str, expected: int) -> None:
    assert deep_json.depth(text) == expected


@pytest.mark.full
def test_names_of_hosts_are_encoded(count: type) -> None:
    flow = torvyn.Flow(["name"])
    flow.add("count", count()).connect("source", "count")

    assert list(flow.text()) == ["www.xn--exmple-cua.org"]
