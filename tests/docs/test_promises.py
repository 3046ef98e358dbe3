"""The page of promises: which marks count, and what the check of the table finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import generate, promises

TABLE = """
[one]
title = "The first document"
[one.kept]
promise = "It is kept."
[one.other]
promise = "It is kept in another way."
different = "It is simpler."
[two]
title = "The second"
[two.away]
promise = "It runs elsewhere."
not_run = "There is no such machine."
"""
FILE = "tests/test_a.py"
KEPT = [promises.Mark("one.kept", FILE, "test_b"), promises.Mark("one.other", FILE, "test_c")]
BODY = "import pytest\n"


@pytest.fixture
def table(tmp_path: Path) -> promises.Table:
    (tmp_path / "promises.toml").write_text(TABLE)
    return promises.Table.read(tmp_path / "promises.toml")


def marks_of(folder: Path, source: str, name: str = "test_a.py") -> list[promises.Mark]:
    (folder / "tests").mkdir()
    (folder / "tests" / name).write_text(BODY + source)
    return promises.marks(folder / "tests")


def test_every_promise_is_proven_or_says_why_it_is_not() -> None:
    assert promises.current_problems() == []


def test_a_test_collects_marks_of_its_own_its_class_and_its_module(tmp_path: Path) -> None:
    source = """
pytestmark = [pytest.mark.promise("m"), pytest.mark.full]
@pytest.mark.promise("c")
class TestOne:
    pytestmark = pytest.mark.promise("b")
    @pytest.mark.promise("t", "u")
    async def test_it(self): pass
def test_other(): pass
"""
    found = [(mark.id, mark.test) for mark in marks_of(tmp_path, source)]

    own = [(id, "test_it") for id in "mcbtu"]
    assert sorted(found) == sorted([*own, ("m", "test_other")])


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ('@pytest.mark.promise("one.kept")\ndef help(): pass', "test_a.py"),
        ('@pytest.mark.promise("one.kept")\ndef test_it(): pass', "library.py"),
        ('EACH = pytest.param(1, marks=pytest.mark.promise("one.kept"))', "test_a.py"),
    ],
    ids=["on a helper", "in a helper", "on a parameter"],
)
def test_a_mark_that_is_not_on_a_test_proves_nothing(
    tmp_path: Path, table: promises.Table, source: str, name: str
) -> None:
    stray, missing = promises.problems(table, [*marks_of(tmp_path, source, name), KEPT[1]])

    assert stray == f"tests/{name}: the mark `one.kept` does not stand on a test"
    assert missing == "docs/promises.toml: no test is marked with `one.kept`"


@pytest.mark.parametrize(
    ("mark", "body"),
    [
        ("@pytest.mark.skip", "pass"),
        ('@pytest.mark.skip(reason="later")', "pass"),
        ('@pytest.mark.skipif(True, reason="later")', "pass"),
        ("@pytest.mark.xfail(strict=False)", "pass"),
        ("@pytest.mark.full", 'pytest.skip("later")'),
    ],
)
def test_a_test_that_never_runs_proves_nothing(
    tmp_path: Path, table: promises.Table, mark: str, body: str
) -> None:
    source = f'@pytest.mark.promise("one.kept")\n{mark}\ndef test_it(): {body}'

    skipped, missing = promises.problems(table, [*marks_of(tmp_path, source), KEPT[1]])

    assert "`test_it` is marked with `one.kept` and always skipped" in skipped
    assert "`one.kept`" in missing


def test_a_test_that_runs_only_in_full_or_with_a_program_counts(
    tmp_path: Path, table: promises.Table
) -> None:
    source = (
        '@pytest.mark.full\n@needs_nginx\n@pytest.mark.promise("one.kept")\ndef test_it(): pass'
    )

    assert promises.problems(table, [*marks_of(tmp_path, source), KEPT[1]]) == []


def test_a_row_without_a_test_and_a_mark_without_a_row_are_problems(table: promises.Table) -> None:
    assert promises.problems(table, KEPT) == []
    assert promises.problems(table, KEPT[:1]) == [
        "docs/promises.toml: no test is marked with `one.other`"
    ]
    (unknown,) = promises.problems(table, [*KEPT, promises.Mark("one.gone", FILE, "test_d")])
    assert unknown == (
        "tests/test_a.py: `test_d` is marked with `one.gone`, which docs/promises.toml lacks"
    )


def test_the_page_counts_and_links(table: promises.Table) -> None:
    page = promises.render(table, KEPT)

    assert "3 promises: 2 are proven by tests. For 1, something could not" in page
    assert "1 differ from their document on purpose." in page
    assert "| `one.kept`: It is kept. | [b](../../tests/test_a.py) |" in page
    assert "*Different*: It is simpler. | [c]" in page
    assert "*Not run*: There is no such machine. | none |" in page


def test_the_command_reports_problems_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate.promises, "current_problems", lambda: ["no test for a row"])
    monkeypatch.setattr(generate, "stale", list)

    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().err == "no test for a row\n"
