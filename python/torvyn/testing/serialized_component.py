"""Serializes a component of a test for a guest: classes and functions as source, state as pickle.

Raises `NotSerializable` for a component with a lock, a generator or an open flow.
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

from torvyn._contract.roles import Component
from torvyn.testing import rebuild_source

GUEST_MODULES: Final = (
    "torvyn._contract",
    "torvyn.errors",
    "torvyn.testing.components",
    rebuild_source.__name__,
)
"""Modules in the guest, which are referred to by name, like the standard library."""

CONTAINERS: Final = (list, dict, set)

Definition = ast.FunctionDef | ast.Lambda | ast.ClassDef


class NotSerializable(TypeError):
    """The component has state that exists only in this process."""


def serialize(component: Component) -> tuple[str, list[Any]]:
    """The serialized component, and the containers that its functions share with the test."""
    target = io.BytesIO()
    state = {name: value for name, value in vars(component).items() if name != "_node"}
    pickler = _SourcePickler(target)
    try:
        pickler.dump((type(component), state))
        captured = pickler.captured
        # The same pickler: its memo makes the second load return the objects of the first.
        pickler.dump(captured)
    except (pickle.PicklingError, TypeError, AttributeError, OSError) as error:
        name = type(component).__name__
        raise NotSerializable(f"`{name}` cannot run in a guest: {error}") from error
    return base64.b85encode(target.getvalue()).decode(), captured


class _SourcePickler(pickle.Pickler):
    def __init__(self, target: io.BytesIO) -> None:
        super().__init__(target, protocol=5)
        self.captured: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, types.ModuleType):
            return __import__("importlib").import_module, (thing.__name__,)
        if isinstance(thing, (types.FunctionType, type)) and not _is_in_guest(thing):
            return self._by_source(thing)
        return NotImplemented

    def _by_source(self, thing: Any) -> tuple[Any, ...]:
        node, source = _definition(thing)
        scope = _scope(thing)
        needed_now = set(_definition_names(node))
        known = {name: scope[name] for name in needed_now if name in scope}
        names = {
            name: scope[name]
            for name in sorted(set(_names(node)) - needed_now)
            if name in scope and scope[name] is not thing
        }
        for value in (*known.values(), *names.values()):
            if isinstance(value, CONTAINERS) and not any(value is each for each in self.captured):
                self.captured.append(value)
        name = "_lambda" if isinstance(node, ast.Lambda) else node.name
        defaults = (getattr(thing, "__defaults__", None), getattr(thing, "__kwdefaults__", None))
        arguments = (source, name, known, node.lineno)
        state = (names, *defaults)
        return rebuild_source.create, arguments, state, None, None, rebuild_source.fill


def _is_in_guest(thing: Any) -> bool:
    module = thing.__module__ or ""
    if "<locals>" in thing.__qualname__ or "<lambda>" in thing.__qualname__:
        return False
    return module.startswith(GUEST_MODULES) or module.partition(".")[0] in sys.stdlib_module_names


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module:
    with open(file, "rb") as source:
        return ast.parse(source.read())


def _definition(thing: Any) -> tuple[Definition, str]:
    """The node that defines a function or class, and its source."""
    file = inspect.getsourcefile(thing)
    if file is None:
        raise NotSerializable(f"`{thing.__qualname__}` has no source")
    nodes = [node for node in ast.walk(_tree(file)) if _defines(node, thing)]
    if len(nodes) != 1:
        raise NotSerializable(f"`{thing.__qualname__}` has {len(nodes)} definitions in its file")
    node: Any = nodes[0]
    if any(isinstance(inner, ast.Nonlocal) for inner in ast.walk(node)):
        raise NotSerializable(f"`{thing.__qualname__}` assigns to a name outside itself")
    if isinstance(node, ast.ClassDef):
        return node, ast.unparse(node)
    # Defaults are serialized as values.
    bare = copy.deepcopy(node)
    bare.args.defaults = [ast.Constant(None) for _ in bare.args.defaults]
    bare.args.kw_defaults = [each and ast.Constant(None) for each in bare.args.kw_defaults]
    if isinstance(bare, ast.Lambda):
        return bare, f"_lambda = ({ast.unparse(bare)})"
    return bare, ast.unparse(bare)


def _defines(node: ast.AST, thing: Any) -> bool:
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


def _scope(thing: Any) -> dict[str, Any]:
    """The values of the names that a function or class uses."""
    functions = [thing] if isinstance(thing, types.FunctionType) else []
    scope: dict[str, Any] = {}
    if isinstance(thing, type):
        functions = [each for each in vars(thing).values() if inspect.isfunction(each)]
        scope.update({base.__name__: base for base in thing.__bases__})
    module = sys.modules.get(thing.__module__)
    scope = {**(vars(module) if module else {}), **scope}
    for function in functions:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        scope.update({name: cell.cell_contents for name, cell in cells if name != "__class__"})
    return scope


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            yield inner.id


def _definition_names(node: Definition) -> Iterator[str]:
    """The names that the definition itself needs: bases, defaults, the body of a class."""
    if isinstance(node, ast.ClassDef):
        for part in (*node.bases, *node.decorator_list):
            yield from _names(part)
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                yield from _definition_names(statement)
            else:
                yield from _names(statement)
        return
    arguments = node.args
    for part in (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)):
        yield from _names(part)
