"""The page of `torvyn.text`: native classes from their stub, the others by inspection."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from reference_python import NOTE, _entry, _in_cell

import torvyn
from torvyn import text


def text_page() -> str:
    doc = inspect.getdoc(text) or ""
    lines = [f"{NOTE}# torvyn.text", "", doc.splitlines()[0], ""]
    stubs = _stubs()
    for name in text.__all__:
        if name in stubs:
            lines += _native_entry(f"torvyn.text.{name}", stubs[name])
        else:
            lines += _entry(f"torvyn.text.{name}", getattr(text, name))
    return "\n".join(lines)


def _stubs() -> dict[str, ast.ClassDef]:
    """The stubs of the native classes, which have no signatures at run time."""
    stub = Path(torvyn.__file__).with_name("_native.pyi")
    body = ast.parse(stub.read_text()).body
    return {node.name: node for node in body if isinstance(node, ast.ClassDef)}


def _native_entry(name: str, stub: ast.ClassDef) -> Iterator[str]:
    methods = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    constructor = next(node for node in methods if node.name == "__new__")
    yield from (f"### {name}", "", f"`{stub.name}({_arguments(constructor)})`", "")
    yield from (inspect.cleandoc(ast.get_docstring(stub) or ""), "")
    yield from ("| member | meaning |", "|---|---|")
    for method in methods:
        if not method.name.startswith("_"):
            yield f"| `{_in_cell(_member(method))}` | {_in_cell(ast.get_docstring(method))} |"
    yield ""


def _member(method: ast.FunctionDef) -> str:
    if method.decorator_list:
        return f".{method.name}"
    returns = "" if method.returns is None else f" -> {ast.unparse(method.returns)}"
    return f"{method.name}({_arguments(method)}){returns}"


def _arguments(method: ast.FunctionDef) -> str:
    """The arguments without `self` or `cls`."""
    arguments = ast.unparse(method.args).partition(", ")[2]
    return arguments.replace("'", '"')
