"""Names of components: declared before built in before installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from torvyn._link.component_library import Library, load_class
from torvyn._link.plan import ComponentRef
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ComponentRecord
from torvyn.components import BUILTINS, SINKS

FILTER = "import torvyn\nclass Part(torvyn.Filter):\n    def evaluate(self, e): return True\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's package with entry points, as pip would leave it behind."""
    (tmp_path / "third_party.py").write_text(FILTER)
    facts = tmp_path / "third_party-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    points = "[torvyn.components]\nfancy = third_party:Part\nnull = third_party:Part\n"
    (facts / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))


def find(name: str, library: Library | None = None, *, has_input: bool = False) -> tuple[str, str]:
    problems = Problems()
    found = (library or Library()).find(name, None, problems, has_input=has_input)
    if found is None:
        diagnostic = problems.diagnostics()[0]
        return diagnostic.code, diagnostic.hint or ""
    return found.ref.kind, found.ref.target


@pytest.mark.usefixtures("installed")
def test_an_installed_component_is_found_by_its_entry_point() -> None:
    assert find("fancy") == ("entry-point", "third_party:Part")


@pytest.mark.usefixtures("installed")
def test_a_built_in_wins_over_an_installed_one() -> None:
    assert find("null") == ("builtin", BUILTINS["null"])


@pytest.mark.parametrize("name", SINKS)
def test_a_name_of_both_roles_is_the_sink_where_there_is_an_input(name: str) -> None:
    assert find(name) == ("builtin", BUILTINS[name])
    assert find(name, has_input=True) == ("builtin", SINKS[name])


def test_a_declared_component_wins_over_a_built_in(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "component.py").write_text(FILTER)
    library = Library({"null": ComponentRecord(name="null", path="own")}, tmp_path)
    target = (tmp_path / "own").resolve() / "component.py"

    assert find("null", library) == ("project", f"{target}:Part")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("wrong", "right"), [("bloklist", "blocklist"), ("fancey", "fancy")])
def test_an_unknown_name_is_told_the_nearest(wrong: str, right: str) -> None:
    assert find(wrong) == ("link.component-unknown", f"did you mean `{right}`?")


def test_a_path_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(FILTER)
    library = Library({"own": ComponentRecord(name="own", path="own.py")}, tmp_path)

    assert find("own", library)[0] == "project"


def test_an_artifact_that_does_not_exist_is_named(tmp_path: Path) -> None:
    problems = Problems()

    assert Library(folder=tmp_path).find("oci:parts:1", None, problems) is None
    assert f"`{tmp_path / 'parts'}`" in problems.diagnostics()[0].message


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        (ComponentRecord(name="guard", path="guard.wasm"), None),
        (ComponentRecord(name="guard", path="guard", language="c"), "build it with `torvyn build`"),
        (ComponentRecord(name="guard", path="g", isolation="wasm"), "build it with `torvyn build`"),
        (ComponentRecord(name="guard", path="guard", language="wasm"), None),
    ],
)
def test_a_sandboxed_component_that_is_not_there_is_missed(
    record: ComponentRecord, hint: str | None, tmp_path: Path
) -> None:
    found = find("guard", Library({"guard": record}, tmp_path))

    assert found == ("link.component-missing", hint or "")


def test_several_classes_are_listed(tmp_path: Path) -> None:
    (tmp_path / "component.py").write_text(FILTER + FILTER.replace("Part", "Other"))
    library = Library({"own": ComponentRecord(name="own", path=".")}, tmp_path)

    assert find("own", library) == (
        "link.component-many-classes",
        "set `entry` to `component:Part` or `component:Other`",
    )


def test_a_private_class_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "component.py").write_text(FILTER + FILTER.replace("Part", "_Shared"))
    library = Library({"own": ComponentRecord(name="own", path=".")}, tmp_path)

    assert find("own", library)[0] == "project"


PRESENT = Path(__file__).parents[2] / "python" / "torvyn" / "components" / "builtin"


@pytest.mark.parametrize(("name", "target"), [*BUILTINS.items(), *SINKS.items()])
def test_every_built_in_is_a_component_of_that_name(name: str, target: str) -> None:
    cls = load_class(ComponentRef("builtin", name, target))

    assert cls.spec.name == name
    assert (PRESENT / f"{cls.role}_{name.replace('-', '_')}.py").is_file()
