"""The rooms import only the rooms before them, at the top of a file or inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "python" / "torvyn"

ORDER = (
    ("errors", "catalogue"),
    ("contract",),
    ("concurrency",),
    ("text",),
    ("v1",),
    ("protocol",),
    ("client",),
    ("components",),
    ("manifest",),
    ("sandbox",),
    ("link",),
    ("reactor",),
    ("engine",),
    ("observe",),
    ("transport",),
    ("testing",),
    ("cli",),
)
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}

# `torvyn.contract` itself runs without the native module; its elements use it when it is there.
NATIVE = (
    "manifest",
    "sandbox",
    "link.checks.grants",
    "reactor",
    "text",
    "protocol",
    "engine",
    "components",
    "contract.element",
    "testing",
)

FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every `torvyn` module a file imports, without the leading `torvyn.`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            raise AssertionError(f"{path}:{node.lineno}: relative import")
        elif isinstance(node, ast.ImportFrom) and node.module == "torvyn":
            names = [f"torvyn.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.startswith("torvyn."):
                yield node.lineno, name.removeprefix("torvyn.")


def is_native(name: str) -> bool:
    return name.partition(".")[0] == "_native"


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path) or "torvyn")
def test_a_file_imports_only_rooms_before_its_own(path: Path) -> None:
    own = module_name(path)
    room = own.partition(".")[0]
    if room in ("", "__main__"):  # the package shows the public names of every room
        return
    for line, name in imports(path):
        other = name.partition(".")[0]
        if is_native(name):
            allowed = any(own == home or own.startswith(f"{home}.") for home in NATIVE)
            assert allowed, f"{path}:{line}: {own} may not import the native module"
        elif other in RANK and other != room:
            assert RANK[other] < RANK[room], f"{path}:{line}: {room} imports {other}"


def test_every_room_has_a_place_in_the_order() -> None:
    rooms = {module_name(path).partition(".")[0] for path in FILES} - {""}

    assert rooms - {"__main__"} <= set(RANK)


def test_a_wrong_direction_would_be_seen(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy.py"
    lazy.write_text("def run():\n    from torvyn.cli import main\n    from torvyn import link\n")

    assert list(imports(lazy)) == [(2, "cli"), (3, "link")]


def test_importing_the_package_loads_neither_native_code_nor_later_rooms() -> None:
    public = {name.partition(".")[0] for _, name in top_level_imports(PACKAGE / "__init__.py")}

    assert public <= {"contract", "errors"}


def top_level_imports(path: Path) -> Iterator[tuple[int, str]]:
    """The imports that run when the module is imported; not those for type checkers."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torvyn."):
            yield node.lineno, (node.module or "").removeprefix("torvyn.")
