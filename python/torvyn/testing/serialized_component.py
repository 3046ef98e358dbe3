"""A component of a test as text that a guest makes it of again: classes and functions by source.

What cannot travel (a lock, a generator, an open flow) is said in `NotSerializable`.
"""

from __future__ import annotations

import ast
import base64
import copy
import inspect
import io
import pickle
import sys
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from torvyn.contract import Component
from torvyn.testing import rebuild_source

INSIDE: Final = (
    "torvyn.contract",
    "torvyn.errors",
    "torvyn.testing.components",
    rebuild_source.__name__,
)
"""Modules that the guest has; with the standard library, what need not be packed."""

CONTAINERS: Final = (list, dict, set)

Definition = ast.FunctionDef | ast.Lambda | ast.ClassDef


class NotSerializable(TypeError):
    """The component holds something that exists only here."""


def pack(component: Component) -> tuple[str, list[Any]]:
    """The parcel, and the containers that the component's functions share with the test."""
    target = io.BytesIO()
    state = {name: value for name, value in vars(component).items() if name != "_node"}
    packer = _Packer(target)
    try:
        packer.dump((type(component), state))
        captured = packer.captured
        # Memo and all: the second load finds the very objects of the first.
        packer.dump(captured)
    except (pickle.PicklingError, TypeError, AttributeError, OSError) as error:
        name = type(component).__name__
        raise NotSerializable(f"`{name}` cannot run in a guest: {error}") from error
    return base64.b85encode(target.getvalue()).decode(), captured


class _Packer(pickle.Pickler):
    def __init__(self, target: io.BytesIO) -> None:
        super().__init__(target, protocol=5)
        self.captured: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, types.ModuleType):
            return __import__("importlib").import_module, (thing.__name__,)
        if isinstance(thing, (types.FunctionType, type)) and not _is_inside(thing):
            return self._by_source(thing)
        return NotImplemented

    def _by_source(self, thing: Any) -> tuple[Any, ...]:
        node, source = _definition(thing)
        around = _surroundings(thing)
        at_once, later = set(_names_at_once(node)), set(_names(node))
        known = {name: around[name] for name in at_once if name in around}
        names = {
            name: around[name]
            for name in sorted(later - at_once)
            if name in around and around[name] is not thing
        }
        for value in (*known.values(), *names.values()):
            if isinstance(value, CONTAINERS) and not any(value is each for each in self.captured):
                self.captured.append(value)
        name = "_lambda" if isinstance(node, ast.Lambda) else node.name
        defaults = (getattr(thing, "__defaults__", None), getattr(thing, "__kwdefaults__", None))
        made = (source, name, known, node.lineno)
        return rebuild_source.make, made, (names, *defaults), None, None, rebuild_source.fill


def _is_inside(thing: Any) -> bool:
    module = thing.__module__ or ""
    if "<locals>" in thing.__qualname__ or "<lambda>" in thing.__qualname__:
        return False
    return module.startswith(INSIDE) or module.partition(".")[0] in sys.stdlib_module_names


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module:
    with open(file, "rb") as source:
        return ast.parse(source.read())


def _definition(thing: Any) -> tuple[Definition, str]:
    """The part of the file that defines a function or class, and its text."""
    file = inspect.getsourcefile(thing)
    if file is None:
        raise NotSerializable(f"`{thing.__qualname__}` has no source")
    found = [node for node in ast.walk(_tree(file)) if _is_that(node, thing)]
    if len(found) != 1:
        raise NotSerializable(f"`{thing.__qualname__}` is found {len(found)} times in its file")
    node: Any = found[0]
    if any(isinstance(inner, ast.Nonlocal) for inner in ast.walk(node)):
        raise NotSerializable(f"`{thing.__qualname__}` assigns to a name outside itself")
    if isinstance(node, ast.ClassDef):
        return node, ast.unparse(node)
    # Defaults go along as the values they have.
    bare = copy.deepcopy(node)
    bare.args.defaults = [ast.Constant(None) for _ in bare.args.defaults]
    bare.args.kw_defaults = [each and ast.Constant(None) for each in bare.args.kw_defaults]
    if isinstance(bare, ast.Lambda):
        return bare, f"_lambda = ({ast.unparse(bare)})"
    return bare, ast.unparse(bare)


def _is_that(node: ast.AST, thing: Any) -> bool:
    if isinstance(thing, type):
        if not isinstance(node, ast.ClassDef) or node.name != thing.__name__:
            return False
        methods = [each for each in vars(thing).values() if isinstance(each, types.FunctionType)]
        lines = {method.__code__.co_firstlineno for method in methods}
        return lines <= set(range(node.lineno, (node.end_lineno or 0) + 1))
    code = thing.__code__
    if isinstance(node, ast.FunctionDef):
        return bool(node.name == code.co_name and node.lineno == code.co_firstlineno)
    if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
        places = {(line, column) for line, _, column, _ in code.co_positions() if column}
        body = node.body
        inner = {(n.lineno, n.col_offset) for n in ast.walk(body) if isinstance(n, ast.expr)}
        return node.lineno == code.co_firstlineno and bool(places) and places <= inner
    return False


def _surroundings(thing: Any) -> dict[str, Any]:
    """What the names in a function or class mean."""
    functions = [thing] if isinstance(thing, types.FunctionType) else []
    found: dict[str, Any] = {}
    if isinstance(thing, type):
        functions = [each for each in vars(thing).values() if inspect.isfunction(each)]
        found.update({base.__name__: base for base in thing.__bases__})
    module = sys.modules.get(thing.__module__)
    found = {**(vars(module) if module else {}), **found}
    for function in functions:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        found.update({name: cell.cell_contents for name, cell in cells if name != "__class__"})
    return found


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner.id


def _names_at_once(node: Definition) -> Iterator[str]:
    """Those that are looked up while the definition runs: bases, defaults, a class's own lines."""
    if isinstance(node, ast.ClassDef):
        for part in (*node.bases, *node.decorator_list):
            yield from _names(part)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                yield from _names_at_once(statement)
            else:
                yield from _names(statement)
        return
    arguments = node.args
    for part in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)):
        yield from _names(part)
