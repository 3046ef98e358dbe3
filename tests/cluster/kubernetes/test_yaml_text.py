"""Every YAML parser reads back what was written."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from torvyn._cluster.kubernetes.yaml_text import render_documents

TRICKY = ["", "no", "1e3", "12:30", "2026-11-16", "a: b", "- a", "# a", "a #b", "\n", "a\nb\n", "~"]
texts = st.one_of(st.text(), st.sampled_from(TRICKY), st.from_regex(r"[\w./:$()\n -]*\n?"))
# YAML reads a key only if it has at most 1,024 characters, and an escaped one has up to ten.
keys = texts.filter(lambda text: len(text) <= 100)
scalars = st.one_of(texts, st.integers(), st.booleans(), st.none())
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=8
)


@given(st.lists(st.dictionaries(keys, values, min_size=1, max_size=4), min_size=1, max_size=3))
def test_documents_are_read_as_they_were(documents: list[dict[str, Any]]) -> None:
    assert list(yaml.safe_load_all(render_documents(documents))) == documents


def test_a_text_of_several_lines_stays_readable() -> None:
    document = {"data": {"nats.conf": "listen: 4222\n\njetstream {\n  store\n}\n"}}

    text = render_documents([document])

    assert text.splitlines()[:3] == ["data:", "  nats.conf: |", "    listen: 4222"]
    assert yaml.safe_load(text) == document
