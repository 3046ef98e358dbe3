"""Public names, file names and ARCHITECTURE.md use the words of the glossary."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from pages import ROOT

GLOSSARY = ROOT / "docs" / "concepts" / "glossary.md"
PUBLIC = (
    "", ".client", ".engine", ".protocol", ".serve", ".telemetry", ".testing", ".text",
)  # fmt: skip

# Words that need no definition: they mean here what they mean everywhere.
ORDINARY_TEXT = """
    ai app application as async busy check client clock collecting counting deadline decoder denied
    done encoder engines error exceeded exporter failed fatal histogram input instantiate internal
    invalid json kind kinds load meta metric mlc otel otlp parser partial permission point reason
    reasons run scripted sentence serve server settings side span splitter stalling stop streamer
    strings text thread tool torvyn transformers unavailable until utf8 variant variants version
    vocabulary wasm
"""
# Words that only the tables and drawings of ARCHITECTURE.md use, for packages and crates.
ARCHITECTURE_TEXT = """
    add cli conclude contract deploy core durable http io observe protocol py python
    reactor response sender testing tools transport v1
"""
# Words of an older dialect. A name that needs one of them needs a better name.
NOT_USED_TEXT = """
    asked book course desk fate gate given hand held made outlet parcel room rooms said shown silent
    strand strands taken told voice voices wanted whoever whom
"""


def words(name: str) -> list[str]:
    """`AsyncClient`, `run_flow` and `idle-timeout` -> their words, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+", " ", name)
    return spaced.lower().split()


def glossary_words() -> set[str]:
    """The bold terms of the page, and its verbs."""
    page = GLOSSARY.read_text()
    verbs = re.findall(r"^\| ([a-z, ]+) \|", page.partition("## Verbs")[2], re.MULTILINE)
    terms = [*re.findall(r"\*\*(.+?)\*\*", page), *verbs]
    return {word for term in terms for word in words(term)}


ORDINARY = frozenset(words(ORDINARY_TEXT))
ARCHITECTURE_WORDS = frozenset(words(ARCHITECTURE_TEXT))
NOT_USED = frozenset(words(NOT_USED_TEXT))


def unknown_words(names: Iterable[str], known: set[str]) -> dict[str, list[str]]:
    """The names that use a word without a meaning, each with those words."""
    missing = {name: [word for word in words(name) if not _is_known(word, known)] for name in names}
    return {name: found for name, found in missing.items() if found}


def _is_known(word: str, known: set[str]) -> bool:
    return word in known or word.removesuffix("s") in known


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: f"torvyn{package}")
def test_public_names_use_words_of_the_glossary(package: str) -> None:
    names = importlib.import_module(f"torvyn{package}").__all__

    assert unknown_words(names, glossary_words() | ORDINARY) == {}


def test_tables_and_drawings_of_the_architecture_use_words_of_the_glossary() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`.+?`) \|", page, re.MULTILINE)
    hops = re.findall(r"^ *\d+  (\S+) ", page, re.MULTILINE)

    assert len(rows) > 20
    assert len(hops) > 10
    assert unknown_words([*rows, *hops], glossary_words() | ORDINARY | ARCHITECTURE_WORDS) == {}
    assert (
        sorted(ARCHITECTURE_WORDS - {word for name in [*rows, *hops] for word in words(name)}) == []
    )
    assert not _not_used(page)


@pytest.mark.parametrize("folder", ["python/torvyn", "crates"])
def test_no_file_name_uses_a_word_of_the_old_dialect(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.rs")]

    assert [_place(path) for path in files if _not_used(path.stem)] == []


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: f"torvyn{package}")
def test_no_public_name_uses_a_word_of_the_old_dialect(package: str) -> None:
    names = importlib.import_module(f"torvyn{package}").__all__

    assert [name for name in names if _not_used(name)] == []


def _not_used(text: str) -> set[str]:
    return NOT_USED & set(words(text))


def _place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_ordinary_words_are_in_use_and_not_in_the_glossary() -> None:
    names = [
        name for package in PUBLIC for name in importlib.import_module(f"torvyn{package}").__all__
    ]
    used = {word for name in names for word in words(name)}

    assert sorted(ORDINARY - used) == []
    assert sorted(ORDINARY & glossary_words()) == []


def test_an_unknown_word_is_detected() -> None:
    assert unknown_words(["FlowGizmo", "run_flow"], glossary_words() | ORDINARY) == {
        "FlowGizmo": ["gizmo"]
    }
    assert _not_used("open_room") == {"room"}
    assert words("Utf8Decoder") == ["utf8", "decoder"]
