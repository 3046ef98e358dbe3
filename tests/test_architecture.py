"""Packages import only the packages before them, and every package lists its modules."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "python" / "torvyn"

ORDER = (
    ("_lazy",),
    ("errors",),
    ("_contract",),
    ("_io",),
    ("text",),
    ("v1",),
    ("protocol",),
    ("client",),
    ("components",),
    ("_manifest",),
    ("_sandbox",),
    ("_artifact",),
    ("_link",),
    ("_durable",),
    ("_flow",),
    ("typing",),
    ("engine",),
    ("_observe",),
    ("telemetry",),
    ("transport",),
    ("serve",),
    ("_deploy",),
    ("_cluster",),
    ("testing",),
    ("_cli",),
)
RANK = {package: rank for rank, packages in enumerate(ORDER) for package in packages}

# `torvyn._contract` runs without the native module; its elements use it when it is installed.
NATIVE = (
    "_io.jetstream",
    "_io.nats",
    "_manifest",
    "_sandbox",
    "_durable",
    "_artifact.precompiled",
    "_link.grants",
    "_link.key_reader",
    "_io.native_parts",
    "_flow",
    "text",
    "protocol",
    "engine",
    "components",
    "_contract.element",
    "testing",
    "transport.grpc.exchange",
    "transport.http.native_exchange",
    "transport.listener.native_listener",
)

FILES = sorted(PACKAGE.rglob("*.py"))
PACKAGES = [path for path in FILES if path.name == "__init__.py"]

# Folders whose files are all of one kind and are found by name: no map.
ONE_KIND = ("components.builtin", "_cli.commands")
MODULE_LINE = re.compile(r"([a-z_0-9]+) {2,}\S")
NAMES_LINE = re.compile(r" {4}((?:\w+, )*\w+) {2,}\S")


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
def test_a_file_imports_only_packages_before_its_own(path: Path) -> None:
    own = module_name(path)
    package = own.partition(".")[0]
    if package in ("", "__main__"):  # the root exports the public names of every package
        return
    for line, name in imports(path):
        other = name.partition(".")[0]
        if is_native(name):
            allowed = any(own == home or own.startswith(f"{home}.") for home in NATIVE)
            assert allowed, f"{path}:{line}: {own} may not import the native module"
        elif other in RANK and other != package:
            assert RANK[other] < RANK[package], f"{path}:{line}: {package} imports {other}"


def test_every_package_has_a_place_in_the_order() -> None:
    packages = {module_name(path).partition(".")[0] for path in FILES} - {""}

    assert packages - {"__main__"} <= set(RANK)


def test_a_wrong_direction_is_detected(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy.py"
    lazy.write_text("def run():\n    from torvyn._cli import main\n    from torvyn import _link\n")

    assert list(imports(lazy)) == [(2, "_cli"), (3, "_link")]


def test_importing_the_root_loads_neither_native_code_nor_later_packages() -> None:
    public = {name.partition(".")[0] for _, name in top_level_imports(PACKAGE / "__init__.py")}

    assert public <= {"_lazy", "_contract", "errors"}


def top_level_imports(path: Path) -> Iterator[tuple[int, str]]:
    """The imports that run when the module is imported; not those for type checkers."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torvyn."):
            yield node.lineno, (node.module or "").removeprefix("torvyn.")


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: module_name(path) or "torvyn")
def test_the_docstring_of_a_package_lists_its_modules(path: Path) -> None:
    docstring, modules = docstring_of(path), modules_in(path.parent)
    if module_name(path) in ONE_KIND:
        return

    listed = [found[1] for line in docstring if (found := MODULE_LINE.match(line))]

    assert sorted(listed) == sorted(modules), f"update the list of modules in {path}"


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: module_name(path) or "torvyn")
def test_the_docstring_of_a_package_lists_its_public_names_or_none(path: Path) -> None:
    lines = [found[1] for line in docstring_of(path) if (found := NAMES_LINE.match(line))]
    listed = [name for line in lines for name in line.split(", ")]

    assert listed == [] or sorted(listed) == sorted(public_names(path)), f"update {path}"


def test_the_docstring_of_the_root_lists_the_public_names() -> None:
    assert any(NAMES_LINE.match(line) for line in docstring_of(PACKAGE / "__init__.py"))


def docstring_of(path: Path) -> list[str]:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()


def modules_in(folder: Path) -> set[str]:
    names = {path.stem for path in folder.glob("*.py")}
    names |= {path.name for path in folder.iterdir() if any(path.glob("*.py"))}
    return {name for name in names if not name.startswith("__")}


def public_names(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


RUFF = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]


def test_no_exception_from_a_ban_is_left_over() -> None:
    banned = {name.rpartition(".")[2] for name in RUFF["flake8-tidy-imports"]["banned-api"]}
    ignored = RUFF["per-file-ignores"]
    files = [PACKAGE.parents[1] / name for name in ignored if name.startswith("python/")]

    for file in files:
        assert re.search(rf"\b({'|'.join(banned)})\b", file.read_text()), f"no exception for {file}"
