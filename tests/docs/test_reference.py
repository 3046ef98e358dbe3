"""The reference matches the code, and the pages follow the style rules."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES, ROOT, page_name

import torvyn

DOCS = ROOT / "docs"
FORBIDDEN = re.compile(r"\b(simply|just|blazing|blazingly)\b", re.IGNORECASE)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)]*)?\)")
TIMED = re.compile(r"\b\d[\d.,]* (us|ns)\b")
FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """A page without its code."""
    return FENCED.sub("", page.read_text())


def test_the_reference_is_up_to_date() -> None:
    command = [sys.executable, str(DOCS / "generate.py"), "--check"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")


def test_the_reference_names_every_public_name_and_no_other() -> None:
    headings = re.findall(r"^### torvyn\.(\w+)$", (DOCS / "reference/python.md").read_text(), re.M)

    assert sorted(headings) == sorted(torvyn.__all__)
    assert len(torvyn.__all__) <= 30


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_has_a_target(page: Path) -> None:
    broken = [link for link, _ in LINK.findall(prose(page)) if not _exists(page, link)]

    assert not broken


def _exists(page: Path, link: str) -> bool:
    return "://" in link or (page.parent / link).exists()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_avoids_empty_words(page: Path) -> None:
    assert not FORBIDDEN.findall(prose(page))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_that_names_a_cost_links_to_its_benchmark(page: Path) -> None:
    assert not TIMED.search(prose(page)) or "benches/results" in page.read_text()


def test_every_page_is_linked_from_the_index() -> None:
    linked = {(DOCS / link).resolve() for link, _ in LINK.findall(prose(DOCS / "README.md"))}
    pages = {path.resolve() for path in DOCS.rglob("*.md")} - {(DOCS / "README.md").resolve()}

    assert sorted(pages - linked) == []
