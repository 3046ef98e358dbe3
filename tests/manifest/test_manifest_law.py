"""The law: parse(render(m)) == m, for every manifest there can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from torvyn._contract.units import parse_duration_s, parse_size_bytes, render_duration, render_size
from torvyn._manifest import records as tables
from torvyn._manifest.parse import parse
from torvyn._manifest.records import Manifest, NodeRecord, PortRef
from torvyn._manifest.render import render

CHARACTERS = st.characters(exclude_categories=("Cs",))
TEXT = st.text(CHARACTERS, max_size=12)
FILLED = st.text(CHARACTERS, min_size=1, max_size=12)
NAME = st.from_regex(r"\A\w[\w-]{0,8}\Z")
VERSION = st.from_regex(r"\A[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\Z")
NANOSECONDS = st.integers(1, 2**30 * 10**9).map(lambda n: parse_duration_s(f"{n / 10**9:.9f}s"))
JSON = st.recursive(
    TEXT
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def values(key: tables.Key) -> st.SearchStrategy[object]:
    if key.choices:
        return st.sampled_from(key.choices)
    return {
        "string": FILLED if key.required else TEXT,
        "name": NAME,
        "version": VERSION,
        "integer": st.integers(int(key.minimum), int(key.maximum)),
        "boolean": st.booleans(),
        "ratio": st.floats(key.minimum, key.maximum),
        "size": st.integers(int(key.minimum), int(key.maximum)),
        "duration": NANOSECONDS,
        "strings": st.lists(TEXT, max_size=3).map(tuple),
        "config": TEXT | st.dictionaries(TEXT, JSON, max_size=3),
        "end": st.builds(PortRef, node=FILLED, port=st.none() | TEXT),
        "amounts": st.dictionaries(TEXT, st.floats(1e-9, 1e9), max_size=2),
        "place": st.deferred(lambda: records(tables.PLACE).map(without_none)),
        "error": st.deferred(lambda: records(tables.ON_ERROR).map(without_none)),
    }[key.kind]


def without_none(table: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in table.items() if value is not None}


def records(table: tables.Table, **extra: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    fields = {
        key.attribute: values(key) if key.required else st.none() | values(key)
        for key in table.keys
    }
    return st.builds(table.record, **fields, **extra)


def named(strategy: st.SearchStrategy[object], name: str = "name") -> st.SearchStrategy[object]:
    return st.lists(strategy, max_size=2, unique_by=lambda record: getattr(record, name))


def by_name(found: list[NodeRecord]) -> dict[str, NodeRecord]:
    return {record.name: record for record in found}


FLOWS = records(
    tables.FLOW,
    name=NAME,
    nodes=named(records(tables.NODE, name=NAME)).map(by_name),
    edges=st.lists(records(tables.EDGE), max_size=2),
)
MANIFESTS = st.builds(
    Manifest,
    project=records(tables.PROJECT),
    components=named(records(tables.COMPONENT)).map(tuple),
    flows=st.lists(FLOWS, min_size=1, max_size=2, unique_by=lambda flow: flow.name).map(by_name),
    runtime=records(tables.RUNTIME),
    observability=records(tables.OBSERVABILITY),
    security=records(tables.SECURITY),
    serve=records(tables.SERVE, routes=st.dictionaries(TEXT, TEXT, max_size=2)),
    pack=records(tables.PACK),
)


@given(MANIFESTS)
def test_a_rendered_manifest_parses_to_itself(made: Manifest) -> None:
    assert parse(render(made), environ={}) == made


@given(st.integers(0, 2**50))
def test_a_rendered_size_parses_to_itself(size: int) -> None:
    assert parse_size_bytes(render_size(size)) == size


@given(NANOSECONDS)
def test_a_rendered_duration_parses_to_itself(seconds: float) -> None:
    assert parse_duration_s(render_duration(seconds)) == seconds


def test_rendered_units_read_well() -> None:
    assert [render_size(n) for n in (0, 1, 1024, 1536, 64 << 20)] == [
        "0B",
        "1B",
        "1KiB",
        "1536B",
        "64MiB",
    ]
    assert [render_duration(s) for s in (100e-6, 0.1, 5, 60, 90, 7200)] == [
        "100us",
        "100ms",
        "5s",
        "1m",
        "90s",
        "2h",
    ]
