"""Type checkers on programs that use torvyn: they report mistakes, and nothing else.

torvyn.Flow(5)  # error: arg-type, reportArgumentType     mypy's code and pyright's rule
reveal_type(element)  # reveals: Element                  the same for both
"""

from __future__ import annotations

import re
from pathlib import Path

import missing
import pytest
from checked_files import Sources, examples, pages, snippets, templates, write
from checkers import CHECKERS, Report, is_installed

MARK = re.compile(r"# (?:error: (?P<error>[\w-]+)|reveals: (?P<type>.+))$")

ERRORS = {
    "argument": {"mypy": "arg-type", "pyright": "reportArgumentType"},
    "arguments": {"mypy": "call-arg", "pyright": "reportCallIssue"},
    "assignment": {"mypy": "assignment", "pyright": "reportAssignmentType"},
    "attribute": {"mypy": "attr-defined", "pyright": "reportAttributeAccessIssue"},
    "item": {"mypy": "list-item", "pyright": "reportArgumentType"},
    "optional": {"mypy": "union-attr", "pyright": "reportOptionalMemberAccess"},
    "overload": {"mypy": "call-overload", "pyright": "reportCallIssue"},
    "overload-item": {"mypy": "list-item", "pyright": "reportCallIssue"},
    "override": {"mypy": "override", "pyright": "reportIncompatibleMethodOverride"},
    "read-only": {"mypy": "misc", "pyright": "reportAttributeAccessIssue"},
    "return": {"mypy": "return-value", "pyright": "reportReturnType"},
    "untyped": {"mypy": "no-untyped-def", "pyright": "reportIncompatibleMethodOverride"},
}
"""The code of a mistake in each checker."""

Place = tuple[str, int]


@pytest.fixture(scope="module")
def sources() -> Sources:
    return {**snippets("good"), **snippets("bad"), **examples(), **templates(), **pages()}


@pytest.fixture(scope="module", params=CHECKERS)
def checker(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not is_installed(name):
        missing.skip(name)
    return name


@pytest.fixture(scope="module")
def reports(
    checker: str, sources: Sources, tmp_path_factory: pytest.TempPathFactory
) -> dict[Place, list[Report]]:
    """Every report of one run over all files, by the path and the line it is about."""
    folder = tmp_path_factory.mktemp(checker)
    origins = write(sources, folder)
    found: dict[Place, list[Report]] = {}
    for report in CHECKERS[checker](folder):
        found.setdefault((origins[report.file], report.line), []).append(report)
    return found


def marks(sources: Sources, checker: str) -> dict[Place, tuple[str, str]]:
    """The expected reports by place: a code and a type, one of them empty."""
    wanted = {}
    for path, text in sources.items():
        for number, line in enumerate(text.splitlines(), 1):
            if found := MARK.search(line):
                code = ERRORS[found["error"]][checker] if found["error"] else ""
                wanted[path, number] = (code, found["type"] or "")
    return wanted


def test_every_mark_is_reported(
    checker: str, sources: Sources, reports: dict[Place, list[Report]]
) -> None:
    missing = []
    for place, (code, revealed) in marks(sources, checker).items():
        found = reports.get(place, [])
        codes, types = {each.code for each in found}, {each.message for each in found}
        if code not in codes or (revealed and revealed not in types):
            missing.append(f"{place[0]}:{place[1]}: expected {code or revealed}, got {found}")

    assert not missing, "\n".join(missing)


def test_nothing_else_is_reported(
    checker: str, sources: Sources, reports: dict[Place, list[Report]]
) -> None:
    wanted = marks(sources, checker)
    stray = [
        f"{path}:{line}: {report.message} [{report.code}]"
        for (path, line), found in sorted(reports.items())
        for report in found
        if (path, line) not in wanted
    ]

    assert not stray, "\n".join(stray)


def test_every_kind_of_file_is_checked(sources: Sources) -> None:
    assert "tests/typing/bad/stages.py" in sources
    assert "examples/hello-world/components/greeter/component.py" in sources
    assert "torvyn init --template filter/components/keep-short/component.py" in sources
    assert "docs/guides/components.md" in sources
    assert "README.md" in sources
    assert "docs/tutorial/README.md#test_flow.py" in sources


def test_the_package_declares_its_types() -> None:
    import torvyn

    assert (Path(torvyn.__file__).parent / "py.typed").exists()
