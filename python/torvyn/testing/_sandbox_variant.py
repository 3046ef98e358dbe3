"""Runs a component of a test in the sandbox: one Python guest, built once, runs any of them.

Classes and functions go to the guest as source, state as pickle; a component with a lock, a
generator or an open flow raises `NotSerializable`. The test's own object shows the state in the
guest: changes of attributes are copied back after each call, and `wake`, `resume` and `interrupt`
send the object's numbers, texts and flags to the guest.
"""

from __future__ import annotations

import ast
import base64
import copy
import hashlib
import importlib.metadata
import inspect
import io
import json
import pickle
import shutil
import sys
import tempfile
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

from torvyn import _native
from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import Component
from torvyn._io.files import writable_folder, write_atomically
from torvyn._sandbox import python_guest
from torvyn._sandbox.compiler import default_cache_dir
from torvyn._sandbox.component import GuestComponent, guest_class
from torvyn._sandbox.project import GuestProject
from torvyn.testing import _rebuild_source

MEMORY_BYTES: Final = 64 << 20
"""The minimum for the interpreter."""
_REPORT_START: Final = "\x1e"


class SandboxVariant(GuestComponent):
    """Replaces a component of a test and keeps its state up to date."""

    config_kind = ConfigKind.EITHER.value
    original: Component
    serialized: str
    captured: list[Any]
    _updates: UpdateFolder | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "_node":
            has_node = value is not None and self._updates is not None
            node = NodeProxy(self.original, self._updates, value) if has_node else None
            self.original._node = node

    def init(self, config: str) -> None:
        self._updates = UpdateFolder()
        limits = self.limits
        assert limits is not None
        grants = (*limits.grants, f"filesystem:read:{self._updates.folder}")
        memory_bytes = max(limits.max_memory_bytes, MEMORY_BYTES)
        self.limits = replace(limits, grants=grants, max_memory_bytes=memory_bytes)
        super().init(json.dumps([self.serialized, str(self._updates.folder), config]))

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self._updates = None

    def printer(self, node: str) -> Callable[[str, str, bool], None]:
        lines: list[str] = []
        return partial(_receive, weakref.ref(self), lines, super().printer(node))


def as_guest(component: Component) -> Component:
    """The component as a guest; raises `NotSerializable` if it cannot run there."""
    serialized, captured = serialize(component)
    variant: Any = _variant_class(component.role)()
    variant.original, variant.serialized, variant.captured = component, serialized, captured
    variant.config, variant.unit = component.config, component.unit
    if component.role == "router":
        variant.ports = component.ports  # type: ignore[attr-defined]
    return variant  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _variant_class(role: str) -> type[GuestComponent]:
    return guest_class(universal_guest(), role, role=role, kind=SandboxVariant)


class UpdateFolder:
    """A folder that the guest reads: one file per update from the test."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="torvyn-updates-"))
        self._close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._sent = 0

    def send(self, state: dict[str, Any]) -> None:
        write_atomically(self.folder / str(self._sent), pickle.dumps(state), is_durable=False)
        self._sent += 1


class NodeProxy:
    """The running node for the test's object; sends the object's state before each call."""

    def __init__(self, original: Component, updates: UpdateFolder | None, node: Any) -> None:
        self._original, self._updates, self._node = weakref.ref(original), updates, node

    def __getattr__(self, name: str) -> Any:
        original = self._original()
        if self._updates is not None and original is not None:
            scalars = (bool, int, float, str, type(None))
            state = vars(original).items()
            self._updates.send({key: value for key, value in state if isinstance(value, scalars)})
        return getattr(self._node, name)


def _receive(
    reference: weakref.ref[SandboxVariant],
    lines: list[str],
    printer: Callable[[str, str, bool], None],
    channel: str,
    text: str,
    is_granted: bool,
) -> None:
    """Handles a line of the guest: part of a report, or something that the component printed."""
    if not text.startswith(_REPORT_START):
        printer(channel, text, is_granted)
        return
    lines.append(text[1:-1])
    if text.endswith(_REPORT_START):
        report = pickle.loads(base64.b85decode("".join(lines)))
        lines.clear()
        variant = reference()
        if variant is not None:
            _apply(variant, *report)


def _apply(variant: SandboxVariant, changes: list[tuple[Any, str, Any]], calls: list[str]) -> None:
    state = vars(variant.original)
    for key, extent, value in changes:
        current: Any = variant.captured[key] if isinstance(key, int) else state.get(key)
        if extent == "tail":
            current.extend(value)
        elif isinstance(current, CONTAINERS) and type(current) is type(value):
            # Changed in place, because the test may refer to the container itself.
            current.clear()
            (current.extend if isinstance(current, list) else current.update)(value)
        else:
            state[key] = value
    for name in calls:
        if variant._node is not None:
            getattr(variant._node, name)()


GUEST_MODULES: Final = (
    "torvyn._contract",
    "torvyn.errors",
    "torvyn.testing._components",
    _rebuild_source.__name__,
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
        return _rebuild_source.create, arguments, state, None, None, _rebuild_source.fill


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


_HERE: Final = Path(__file__).parent
_APP: Final = _HERE / "_guest_app.py"
_MODULES: Final = (_HERE / "_components.py", _HERE / "_rebuild_source.py")


@lru_cache(maxsize=1)
def universal_guest() -> Path:
    """The file. Raises `sandbox.toolchain-missing` if it is not cached and cannot be built."""
    folder = writable_folder(default_cache_dir().parent / "testing", "torvyn-testing")
    file = folder / f"universal-guest-{_digest()}.wasm"
    if not file.is_file():
        write_atomically(file, _build(), is_durable=False)
    return file


def _digest() -> str:
    digest = hashlib.sha256(_toolchain().encode())
    for file in (_APP, *_MODULES, *python_guest.contract_files()):
        digest.update(file.read_bytes())
    for _, text in _native.WasmTools.wit_files():
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _toolchain() -> str:
    try:
        return importlib.metadata.version("componentize-py")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _build() -> bytes:
    guest = GuestProject("universal-guest", _HERE, "python")
    python_guest.toolchain(guest)
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        root = Path(folder)
        python_guest.copy_contract(root / "app")
        testing = root / "app" / "torvyn" / "testing"
        testing.mkdir(parents=True)
        (testing / "__init__.py").touch()
        for file in _MODULES:
            shutil.copy(file, testing)
        shutil.copyfile(_APP, root / "app" / f"{python_guest.APP}.py")
        python_guest.write_contracts(root / "wit", python_guest.WORLDS)
        return python_guest.componentize(guest, root)
