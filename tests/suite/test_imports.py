"""`make test` installs every package that a test imports, and no module hides another."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import install
import missing
import pytest
from pages import PAGES, blocks_of

import helper_folders

ROOT = Path(__file__).parents[2]
OURS = {"torvyn", "benches", "docs", "tests", *sys.stdlib_module_names}
HELPERS = {file.stem for file in [*helper_folders.modules(), *(ROOT / "tools").glob("*.py")]}


def names(tree: ast.AST) -> Iterator[str]:
    """The modules that a program imports, also by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in BY_NAME:
            yield from (each.value for each in node.args[:1] if isinstance(each, ast.Constant))


BY_NAME = {"pytest.importorskip", "importlib.import_module", "importlib.util.find_spec", "library"}


def of_files(files: Iterable[Path]) -> dict[str, Path]:
    return {name: file for file in files for name in names(ast.parse(file.read_text()))}


def of_benches(wanted: Iterable[str]) -> dict[str, Path]:
    """What those modules of `benches` import when they are loaded, and so on."""
    found: dict[str, Path] = {}
    waiting, seen = [*wanted], set[Path]()
    while waiting:
        file = bench_file(waiting.pop())
        if file is not None and file not in seen:
            seen.add(file)
            loaded = [node for node in ast.parse(file.read_text()).body if is_import(node)]
            new = {name: file for node in loaded for name in names(node)}
            waiting += new
            found |= new
    return found


def is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def bench_file(name: str) -> Path | None:
    path = ROOT / name.replace(".", "/")
    places = (path.with_suffix(".py"), path / "__init__.py")
    return next(
        (place for place in places if name.startswith("benches.") and place.is_file()), None
    )


def of_pages() -> dict[str, Path]:
    return {
        name: page
        for page in PAGES
        for block in blocks_of(page)
        if block.language == "python" and block.is_run
        for name in names(ast.parse(block.text))
    }


def normal(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=~;! ]", requirement)[0]).lower()


def installed() -> set[str]:
    groups = install.groups_of()
    lists = [install.requirements(groups, name) for name in ("tests", "tests-alone")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return {normal(requirement) for each in [project, *lists] for requirement in each}


@pytest.mark.timeout(180)
def test_every_package_that_tests_and_pages_import_is_installed() -> None:
    tests = of_files(helper_folders.TESTS.rglob("*.py"))
    wanted = tests | of_benches(tests) | of_pages()
    given, providers = installed(), packages_distributions()
    lacking = {
        f"{name} in {file.relative_to(ROOT)}"
        for name, file in wanted.items()
        for top in [name.partition(".")[0]]
        if top not in OURS | HELPERS | {*missing.LARGE}
        and not {normal(each) for each in [top, *providers.get(top, [])]} & given
    }
    assert lacking == set(), "name them in [dependency-groups] of pyproject.toml"


def test_no_helper_and_no_folder_of_helpers_hides_another_module() -> None:
    counts = Counter(file.stem for file in helper_folders.modules())
    folders = [Path(folder) for folder in helper_folders.folders()]
    below = {path.name for folder in folders for path in folder.iterdir() if path.is_dir()}
    packages = {*packages_distributions(), *missing.LARGE}

    assert [name for name, count in counts.items() if count > 1] == []
    # A folder is found only where there is no module of that name.
    assert (counts.keys() | below) & packages == set()
    assert counts.keys() & sys.stdlib_module_names == set()
