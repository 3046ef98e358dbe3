"""ARCHITECTURE.md names what exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "torvyn"
CRATES = ROOT / "crates"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()

HOP = re.compile(r"^ *\d+  (\S+) +(\S+\.(?:py|rs)) +\S", re.MULTILINE)
ROW = re.compile(r"^\| (`.+?`) \|", re.MULTILINE)


def section(title: str) -> str:
    found = re.search(rf"^## {title}$(.+?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"ARCHITECTURE.md has no section {title!r}"
    return found[1]


def names_in_rows(title: str) -> list[str]:
    return [name for row in ROW.findall(section(title)) for name in re.findall(r"`(.+?)`", row)]


def test_the_page_lists_every_package() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert sorted(names_in_rows("Python packages")) == sorted({*packages, "errors"})


def test_the_page_lists_every_crate() -> None:
    crates = {path.parent.name for path in CRATES.glob("*/Cargo.toml")}

    assert sorted(names_in_rows("Crates")) == sorted(crates)


def test_the_page_lists_every_file_with_unsafe_code() -> None:
    listed = {
        f"{crate}/{name}"
        for crate, names in re.findall(r"^- `(torvyn-\w+)`: (.+(?:\n  .+)*)", PAGE, re.MULTILINE)
        for name in re.findall(r"`([\w/]+\.rs)`", names)
    }

    assert listed == set(_unsafe_files())


def _unsafe_files() -> Iterator[str]:
    for path in CRATES.glob("*/src/**/*.rs"):
        code = re.sub(r"//.*", "", path.read_text())
        if re.search(r"\bunsafe\b", code):
            crate, _, name = str(path.relative_to(CRATES)).partition("/src/")
            yield f"{crate}/{name}"


@pytest.mark.parametrize("title", ["The path of an element", "The path of an answer"])
def test_each_hop_of_a_drawing_names_code_that_exists(title: str) -> None:
    hops = HOP.findall(section(title))

    assert len(hops) >= 3
    assert len(hops) == len(re.findall(r"^ *\d+  ", section(title), re.MULTILINE))
    assert [hop for hop in hops if not _is_defined(*hop)] == []


def _is_defined(name: str, file: str) -> bool:
    """Whether a file of the package or of a crate defines every part of `Class.method`."""
    found = [path for path in (PACKAGE / file, CRATES / file) if path.is_file()]
    parts = re.split(r"\.|::", name)
    kinds = "class|def|struct|enum|trait|fn|impl"
    return bool(found) and all(
        re.search(rf"\b(?:{kinds}) {part}\b", found[0].read_text()) for part in parts
    )


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`([\w/.-]+/[\w/.-]+)`", PAGE)

    homes = (ROOT, PACKAGE, CRATES, *CRATES.glob("*/src"))
    assert [path for path in paths if not any((home / path).exists() for home in homes)] == []


def test_a_name_that_does_not_exist_is_detected() -> None:
    assert _is_defined("Source.pull", "_contract/roles.py")
    assert not _is_defined("Source.gizmo", "_contract/roles.py")
    assert not _is_defined("Source", "_contract/gizmo.py")
