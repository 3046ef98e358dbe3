"""The page of promises: the rows of promises.toml, and the tests that are marked to prove them.

A test carries `@pytest.mark.promise("tokens.transcript")`, or its class or module has that mark in
`pytestmark`. The marks are read from the sources, so the page does not depend on what is installed.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / "docs" / "promises.toml"
TESTS: Final = ROOT / "tests"
MAX_LINKS: Final = 6
"""Of one file: more are one link to the file."""

Test = ast.FunctionDef | ast.AsyncFunctionDef

HEAD: Final = """\
<!-- Generated from promises.toml and the marks of the tests: run `make docs`. -->
# Promises

Four documents say what Torvyn does, or what a runtime for streams should do. This page has a row
for each of their promises, in our words, with the tests that prove it. A row without a test fails
the build.

{total} promises: {proven} are proven by tests. For {not_run}, something could not be run here.
{different} differ from their document on purpose.{pending}

`make test TESTS="--no-rust -m promise"` runs them, with a sample of what is slow by nature. Some
are proven only in full, such as `tokens.rust-port`: `make test-all` with the same `TESTS` runs all
of them. A few need what `make test-deps` installs.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A promise. `different` and `not_run` give reasons; `pending` names what is still missing."""

    id: str
    promise: str
    different: str = ""
    not_run: str = ""
    pending: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """What says that `test` proves the promise `id`. Without a name it stands on no test."""

    id: str
    file: str
    test: str
    is_skipped: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """The rows by their ids, and the title of each document by the first word of its ids."""

    titles: dict[str, str]
    rows: dict[str, Row]

    @classmethod
    def read(cls, file: Path = TABLE) -> Table:
        documents = tomllib.loads(file.read_text())
        titles = {name: table.pop("title") for name, table in documents.items()}
        rows = [
            Row(f"{name}.{noun}", **columns)
            for name, table in documents.items()
            for noun, columns in table.items()
        ]
        return cls(titles, {row.id: row for row in rows})


# Marks


def marks(folder: Path = TESTS) -> list[Mark]:
    """All marks of the tests in a folder, in the order of files and lines."""
    return [
        mark
        for file in sorted(folder.rglob("*.py"))
        if "mark.promise(" in (source := file.read_text())
        for mark in _marks_of(ast.parse(source), file.relative_to(folder.parent).as_posix())
    ]


def _marks_of(tree: ast.Module, file: str) -> Iterator[Mark]:
    used = set[ast.expr]()
    is_collected = Path(file).name.startswith("test_")
    for test, applied in _tests(tree.body, []) if is_collected else ():
        used.update(applied)
        yield from (Mark(id, file, test.name, _is_skipped(test, applied)) for id in _ids(applied))
    stray = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and node not in used]
    yield from (Mark(id, file, "") for id in _ids(stray))


def _tests(
    body: Sequence[ast.stmt], above: list[ast.expr]
) -> Iterator[tuple[Test, list[ast.expr]]]:
    """The tests of a module or of a class, each with all of its marks."""
    above = [*above, *_pytestmark(body)]
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from _tests(node.body, [*above, *node.decorator_list])
        elif isinstance(node, Test) and node.name.startswith("test_"):
            yield node, [*above, *node.decorator_list]


def _pytestmark(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            value = node.value
            yield from value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _ids(applied: Sequence[ast.expr]) -> Iterator[str]:
    for mark in applied:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
            yield from (ast.unparse(argument).strip("'") for argument in mark.args)


SKIPS: Final = ("pytest.mark.skip(", "pytest.mark.skipif(True", "pytest.mark.xfail", "pytest.skip(")


def _is_skipped(test: Test, applied: Sequence[ast.expr]) -> bool:
    """Whether the test never runs, or may fail, whatever is installed."""
    statements = [node.value for node in test.body if isinstance(node, ast.Expr)]
    written = [ast.unparse(node) for node in [*applied, *statements]]
    return any(text == "pytest.mark.skip" or text.startswith(SKIPS) for text in written)


# Problems


def current_problems() -> list[str]:
    return problems(Table.read(), marks())


def problems(table: Table, found: Sequence[Mark]) -> list[str]:
    """Marks that prove nothing, and rows that nothing proves."""
    wrong = [f"{mark.file}: {problem}" for mark in found if (problem := _problem(mark, table))]
    proven = {mark.id for mark in found if not _problem(mark, table)}
    for id, row in table.rows.items():
        if id in proven and row.pending:
            wrong.append(f"docs/promises.toml: `{id}` has a test and is still `pending`")
        elif id not in proven and not (row.not_run or row.pending):
            wrong.append(f"docs/promises.toml: no test is marked with `{id}`")
    return wrong


def _problem(mark: Mark, table: Table) -> str:
    if not mark.test:
        return f"the mark `{mark.id}` does not stand on a test"
    if mark.id not in table.rows:
        return f"`{mark.test}` is marked with `{mark.id}`, which docs/promises.toml lacks"
    return f"`{mark.test}` is marked with `{mark.id}` and always skipped" if mark.is_skipped else ""


# The page


def promises_page() -> str:
    return render(Table.read(), marks())


def render(table: Table, found: Sequence[Mark]) -> str:
    rows, proven = table.rows.values(), {mark.id for mark in found}
    pending = sum(bool(row.pending) for row in rows)
    head = HEAD.format(
        total=len(rows),
        proven=sum(row.id in proven and not row.not_run for row in rows),
        not_run=sum(bool(row.not_run) for row in rows),
        different=sum(bool(row.different) for row in rows),
        pending=f" {pending} are not proven yet." if pending else "",
    )
    return head + "".join(_section(name, table, found) for name in table.titles)


def _section(name: str, table: Table, found: Sequence[Mark]) -> str:
    lines = [f"\n## {table.titles[name]}\n", "| promise | tests |", "|---|---|"]
    for row in table.rows.values():
        if row.id.startswith(f"{name}."):
            own = [mark for mark in found if mark.id == row.id]
            lines.append(f"| `{row.id}`: {_text(row)} | {'<br>'.join(_links(own)) or 'none'} |")
    return "\n".join(lines) + "\n"


def _text(row: Row) -> str:
    remarks = {"Different": row.different, "Not run": row.not_run, "Not proven yet": row.pending}
    return " ".join([row.promise, *(f"*{name}*: {why}" for name, why in remarks.items() if why)])


def _links(own: Sequence[Mark]) -> Iterator[str]:
    for file, marked in groupby(own, lambda mark: mark.file):
        names = [mark.test.removeprefix("test_").replace("_", " ") for mark in marked]
        shown = names if len(names) <= MAX_LINKS else [f"{len(names)} tests"]
        yield from (f"[{name}](../../{file})" for name in shown)
