"""What programs import: a few modules, with the same names for people, type checkers and Python.

Pages, examples and templates import nothing else, so a module that moves inside the package is not
noticed by anybody outside.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torvyn.components import BUILTINS, CLASSES, SINKS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "python" / "torvyn"

FACES = (
    "torvyn",
    "torvyn.client",
    "torvyn.components",
    "torvyn.engine",
    "torvyn.errors",
    "torvyn.protocol",
    "torvyn.serve",
    "torvyn.telemetry",
    "torvyn.testing",
    "torvyn.text",
    "torvyn.typing",
    "torvyn.v1",
    "torvyn.v1.inference_pb2",
    "torvyn.v1.inference_pb2_grpc",
)

INSIDE = {
    "_artifact.cache",
    "_artifact.fetch",
    "_artifact.registry_http",
    "_artifact.trust",
    "_cli.app",
    "_cluster.broker",
    "_deploy.deployment",
    "_deploy.integrity",
    "_deploy.source",
    "_deploy.update",
    "_durable.backend",
    "_durable.dead_letters",
    "_durable.disk.store",
    "_flow",
    "_flow.reload",
    "_io.process",
    "_link.key_reader",
    "_link.plan",
    "_native",
    "_observe.spans",
    "_sandbox.build",
    "_sandbox.compiler",
    "_sandbox.component",
    "_sandbox.project",
    "components.builtin.filter_redact",
    "components.keys.keyed_components",
    "engine.transformers.batch_setup",
    "engine.transformers.model",
    "protocol.traceparent",
    "transport.listener.native_listener",
    "transport.listener.sockets",
    "transport.websocket.message_reader",
    "transport.websocket.native_socket",
}
"""What benchmarks measure that programs do not import. This list may only become shorter."""

LAZY = [name for name in FACES if name not in ("torvyn.errors",) and ".v1" not in name]
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def path_of(face: str) -> Path:
    path = PACKAGE.parent / face.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported_for_type_checkers(path: Path) -> set[str]:
    """The names that a type checker, and anybody else who reads the file, can import."""
    tree = ast.parse(path.read_text())
    blocks = [
        *tree.body,
        *(line for each in tree.body if isinstance(each, ast.If) for line in each.body),
    ]
    found: set[str] = set()
    for each in blocks:
        if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("torvyn"):
            found |= {alias.asname or alias.name for alias in each.names}
        elif isinstance(each, ast.AnnAssign):
            found.add(ast.unparse(each.target))
    return found - {"attach"}


@pytest.mark.parametrize("face", LAZY)
def test_every_public_name_is_found_by_python_and_by_type_checkers(face: str) -> None:
    module = importlib.import_module(face)
    names: list[str] = module.__all__

    assert [name for name in names if not hasattr(module, name)] == []
    assert set(names) <= imported_for_type_checkers(path_of(face))
    assert set(names) <= set(dir(module))


@pytest.mark.parametrize("face", LAZY)
def test_a_misspelt_name_is_an_attribute_error(face: str) -> None:
    module = importlib.import_module(face)

    with pytest.raises(AttributeError, match=f"module '{face}' has no attribute 'flwo'"):
        _ = module.flwo


def test_the_public_modules_are_attributes_of_the_package() -> None:
    code = "import torvyn; print(*(getattr(torvyn, name).__name__ for name in {0}))"
    rooms = [face.removeprefix("torvyn.") for face in LAZY if face != "torvyn"]

    done = subprocess.run(
        [sys.executable, "-c", code.format(rooms)], capture_output=True, text=True, check=False
    )

    assert (done.stderr, done.stdout.split()) == ("", [f"torvyn.{room}" for room in rooms])


def test_importing_every_face_but_the_test_kit_loads_no_native_code() -> None:
    faces = [face for face in LAZY if face != "torvyn.testing"]
    code = f"import sys, {', '.join(faces)}; print('torvyn._native' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout) == ("", "False\n")


def test_every_built_in_component_has_a_public_class() -> None:
    components = importlib.import_module("torvyn.components")

    assert set(CLASSES.values()) == {*BUILTINS.values(), *SINKS.values()}
    assert set(CLASSES) <= set(components.__all__)
    assert len(CLASSES) == 38


def code_for_users() -> Iterator[tuple[str, str]]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    for page in pages:
        for number, block in enumerate(CODE.findall(page.read_text())):
            yield f"{page.relative_to(ROOT)} ({number})", block
    templates = [
        path
        for path in (PACKAGE / "cli" / "templates").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.parent.name != "templates"
    ]
    for path in [*(ROOT / "examples").rglob("*.py"), *templates]:
        if path.suffix in {".py", ".txt", ".tmpl"}:
            yield str(path.relative_to(ROOT)), path.read_text()


def imported(code: str) -> set[str]:
    """The modules of the package that some code imports."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a piece of a program
        return set(re.findall(r"^(?:from|import) (torvyn[\w.]*)", code, re.MULTILINE))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "torvyn":
            inside = (alias.name for alias in node.names)
            found |= {f"torvyn.{name}" for name in inside if (PACKAGE / name).is_dir()}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "torvyn"}


USERS = dict(code_for_users())


@pytest.mark.parametrize("name", [name for name, code in USERS.items() if "torvyn" in code])
def test_pages_examples_and_templates_import_only_what_is_public(name: str) -> None:
    assert imported(USERS[name]) <= set(FACES)


def test_benchmarks_import_what_is_public_or_what_they_measure() -> None:
    found: set[str] = set()
    for path in (ROOT / "benches").rglob("*.py"):
        found |= imported(path.read_text())

    assert {name.removeprefix("torvyn.") for name in found - set(FACES)} == INSIDE
