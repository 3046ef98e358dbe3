"""Components of a project: two folders never see each other's modules."""

from __future__ import annotations

import inspect
import pickle
import traceback
from pathlib import Path

import pytest

from torvyn._contract.roles import Component
from torvyn._link.component_library import Library, instantiate
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ComponentRecord
from torvyn.errors import LinkError

PART = """
import torvyn
import model

class Part(torvyn.Filter):
    early = model.NAME

    def evaluate(self, element):
        import model as again
        from model import NAME
        from deep.inner import DEPTH
        import deep.inner
        return (again.NAME, NAME, DEPTH, deep.inner.DEPTH)

    def fail(self):
        raise ValueError("here")
"""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def load(root: Path, name: str, entry: str | None = None) -> Component:
    problems = Problems()
    record = ComponentRecord(name=name, path=name, entry=entry)
    found = Library({name: record}, root).find(name, None, problems)
    if found is None:
        raise LinkError.of(problems.diagnostics()) from problems.cause
    return instantiate(found.ref)


def two_components(root: Path) -> tuple[Component, Component]:
    for name in ("one", "two"):
        write(
            root / name,
            {
                "component.py": PART,
                "model.py": f"NAME = {name!r}\n",
                "deep/__init__.py": "",
                "deep/inner.py": "import model\nDEPTH = 'deep ' + model.NAME\n",
            },
        )
    return load(root, "one"), load(root, "two")


def test_two_components_each_own_a_model(tmp_path: Path) -> None:
    one, two = two_components(tmp_path)

    assert (one.early, two.early) == ("one", "two")


def test_imports_inside_functions_and_packages_are_private_too(tmp_path: Path) -> None:
    one, two = two_components(tmp_path)

    assert one.evaluate(None) == ("one", "one", "deep one", "deep one")
    assert two.evaluate(None) == ("two", "two", "deep two", "deep two")


def test_a_private_module_does_not_reach_the_program(tmp_path: Path) -> None:
    two_components(tmp_path)

    with pytest.raises(ModuleNotFoundError):
        __import__("model")


def test_components_pickle_can_be_inspected_and_show_their_lines(tmp_path: Path) -> None:
    one, _ = two_components(tmp_path)

    assert type(pickle.loads(pickle.dumps(one))) is type(one)
    assert inspect.getsource(type(one)).startswith("class Part")
    with pytest.raises(ValueError, match="here") as caught:
        one.fail()
    assert 'raise ValueError("here")' in "".join(traceback.format_tb(caught.tb))


def test_relative_imports_work(tmp_path: Path) -> None:
    text = "import torvyn\nfrom . import model\nfrom .model import NAME\n" + PART[14:]
    write(tmp_path / "one", {"component.py": text, "model.py": "NAME = 'r'\n"})

    assert load(tmp_path, "one").early == "r"


def test_the_standard_library_is_seen_unless_a_sibling_has_its_name(tmp_path: Path) -> None:
    text = "import json, torvyn\nclass P(torvyn.Filter):\n    own = json.__file__\n"
    write(tmp_path / "one", {"component.py": text})
    write(tmp_path / "two", {"component.py": text, "json.py": ""})

    assert load(tmp_path, "one").own == __import__("json").__file__
    assert load(tmp_path, "two").own == str((tmp_path / "two" / "json.py").resolve())


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    text = "import torvyn\nclass P(torvyn.Filter):\n    word = {!r}\n"
    write(tmp_path / "one", {"component.py": text.format("first")})
    first = load(tmp_path, "one")
    write(tmp_path / "one", {"component.py": text.format("second")})

    assert (first.word, load(tmp_path, "one").word) == ("first", "second")
    assert not (tmp_path / "one" / "__pycache__").exists()


def test_an_unchanged_file_is_one_class_however_often_it_is_loaded(tmp_path: Path) -> None:
    one, _ = two_components(tmp_path)

    assert type(load(tmp_path, "one")) is type(one)


def test_an_entry_may_leave_the_file_out(tmp_path: Path) -> None:
    text = "import torvyn\nclass A(torvyn.Filter): pass\nclass B(torvyn.Filter): pass\n"
    write(tmp_path / "one", {"component.py": text})

    assert type(load(tmp_path, "one", ":A")).__name__ == "A"


@pytest.mark.parametrize("entry", ["parts.py:B", "parts:B", "sub.parts:B", "sub/parts.py:B"])
def test_an_entry_names_a_file_or_a_module_and_a_class(tmp_path: Path, entry: str) -> None:
    text = "import torvyn\nclass A(torvyn.Filter): pass\nclass B(torvyn.Filter): pass\n"
    write(tmp_path / "one", {"parts.py": text, "sub/__init__.py": "", "sub/parts.py": text})

    assert type(load(tmp_path, "one", entry)).__name__ == "B"


def test_a_syntax_error_has_its_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "one", {"component.py": "import torvyn\nclass :\n"})
    with pytest.raises(LinkError) as caught:
        load(Path(), "one")

    assert caught.value.render() == (
        "error[link.component-import]: component `one` cannot be imported: invalid syntax\n"
        "  at one/component.py:2:7"
    )


def test_an_import_error_is_placed_in_the_components_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "component.py": "import torvyn\nimport model\n",
        "model.py": "\nimport nowhere_at_all\n",
    }
    write(tmp_path / "one", files)
    with pytest.raises(LinkError) as caught:
        load(Path(), "one")

    assert str(caught.value.location) == "one/model.py:2"
    assert caught.value.hint == (
        "install `nowhere_at_all`, or put `nowhere_at_all.py` into the component's folder"
    )
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_component_that_exits_while_it_is_imported_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "one", {"component.py": "raise SystemExit(3)\n"})

    with pytest.raises(LinkError, match="SystemExit"):
        load(tmp_path, "one")
