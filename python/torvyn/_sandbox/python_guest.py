"""Guests in Python: componentize-py bundles their files with `torvyn._contract` and an adapter.

A build takes seconds and gives 18 MB, most of it the interpreter. Class, role, unit, config and
ports are read from the component's file without running it.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn import _native
from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import BATCH_METHODS, METHODS, ROLES
from torvyn._sandbox.project import ComponentBinary, GuestProject, display_path, toolchain_missing
from torvyn.errors import ContractError, Location

_ROLES_BY_CLASS = {cls.__name__: role for role, cls in ROLES.items()}


@dataclass(frozen=True, slots=True)
class ClassSource:
    """A guest's component class."""

    module: str
    name: str
    role: str
    unit: str | None
    ports: tuple[str, ...]
    config_kind: str
    """As `torvyn._contract.config` reads it from a class."""
    has_state: bool = False
    """Whether it defines `snapshot` and `restore`."""


def read_class(guest: GuestProject) -> ClassSource:
    """The class that the guest's entry names, or the only class with a role."""
    file, entry_class = find_entry(guest)
    if not file.is_file():
        message = f"component `{guest.name}`: `{display_path(file)}` does not exist"
        raise ContractError("sandbox.source-missing", message)
    tree = _parse(file)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    roles = {name: role for name in classes if (role := _role(name, classes))}
    name = entry_class or _only(guest, file, [name for name in roles if not name.startswith("_")])
    if name not in roles:
        raise _no_role(guest, file, f"`{name}` is not a class with a role")
    family = _family(name, classes)
    _check(family, roles[name], file)
    unit, ports = _literal(family, "unit"), _literal(family, "ports")
    return ClassSource(
        ".".join(file.relative_to(guest.folder).with_suffix("").parts),
        name,
        roles[name],
        unit if isinstance(unit, str) else None,
        tuple(ports) if isinstance(ports, (tuple, list)) else (),
        _config_kind(family, classes),
        {"snapshot", "restore"} <= _defined(family),
    )


def find_entry(guest: GuestProject) -> tuple[Path, str]:
    """The file and, if the entry names one, the class."""
    module, _, name = (guest.entry or "component.py").partition(":")
    module = module or "component.py"
    path = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    return guest.folder / path, name


def imported_modules(files: list[Path]) -> set[str]:
    """All modules that the files import: a guest has no disk to import from later."""
    names: set[str] = set()
    for file in files:
        for node in ast.walk(_parse(file)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return names


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        place = Location(display_path(file), error.lineno, error.offset)
        raise ContractError("sandbox.compile-failed", error.msg, location=place) from error


def _role(name: str, classes: dict[str, ast.ClassDef], depth: int = 0) -> str | None:
    """The role of a class, from its bases: a role class, or a class in the same file."""
    if name not in classes or depth > len(classes):
        return None
    for base in classes[name].bases:
        last = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        role = _role(last, classes, depth + 1) if last in classes else _ROLES_BY_CLASS.get(last)
        if role:
            return role
    return None


def _family(name: str, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class and its bases in the same file, the nearest first."""
    names = [name]
    for known in names:
        for base in classes[known].bases:
            last = getattr(base, "id", "")
            if last in classes and last not in names:
                names.append(last)
    return [classes[known] for known in names]


def _only(guest: GuestProject, file: Path, names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    if names:
        raise _no_role(guest, file, f"{len(names)} classes have a role: {', '.join(names)}")
    raise _no_role(guest, file, "no class has a role")


def _no_role(guest: GuestProject, file: Path, reason: str) -> ContractError:
    hint = "set `entry` to the file and the class, as `module:Class`"
    return ContractError(
        "sandbox.no-role",
        f"component `{guest.name}`: {reason}",
        location=Location(display_path(file)),
        hint=hint,
    )


def _check(family: list[ast.ClassDef], role: str, file: Path) -> None:
    """Checks that the methods are sync and that the role's method exists."""
    methods: dict[str, tuple[str, ast.stmt]] = {}
    for owner in reversed(family):
        defined = (node for node in owner.body if hasattr(node, "name"))
        methods.update({node.name: (owner.name, node) for node in defined})
    for name in _called_methods(role):
        owner_name, node = methods.get(name, ("", None))
        if isinstance(node, ast.AsyncFunctionDef):
            message = f"`{owner_name}.{name}` is async; methods in the sandbox must be sync"
            place = Location(display_path(file), node.lineno, node.col_offset + 1)
            hint = 'remove `isolation = "wasm"`, or make the method sync'
            raise ContractError("sandbox.method-unsupported", message, location=place, hint=hint)
    if not _may_have(family, METHODS[role]) and BATCH_METHODS.get(role) not in _defined(family):
        message = f"`{family[0].name}` is a {role} without a method `{METHODS[role]}`"
        place = Location(display_path(file), family[0].lineno, family[0].col_offset + 1)
        raise ContractError("link.method-missing", message, location=place)


def _defined(family: list[ast.ClassDef]) -> set[str]:
    """The names of the functions that the class defines, possibly inherited in the same file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for cls in family for node in cls.body if isinstance(node, kinds)}


def _may_have(family: list[ast.ClassDef], method: str) -> bool:
    """Whether the class may have the method; True if a base is in another file."""
    known = {*_ROLES_BY_CLASS, *(cls.name for cls in family)}
    bases = [base for cls in family for base in cls.bases]
    if any(getattr(base, "attr", getattr(base, "id", "")) not in known for base in bases):
        return True
    names = {
        getattr(node, "name", None) or getattr(node, "id", None)
        for cls in family
        for node in ast.walk(cls)
    }
    return bool(names & {method, "__iter__", "__getattr__", "setattr"})


def _called_methods(role: str) -> Iterator[str]:
    yield from (METHODS[role], BATCH_METHODS.get(role, ""), "snapshot", "restore")
    yield from ("init", "teardown", "flush", "complete", "__aiter__")


def _config_kind(family: list[ast.ClassDef], classes: dict[str, ast.ClassDef]) -> str:
    """The kind that the class declares, or that of the parameter of its `init`."""
    declared = _literal(family, "config_kind")
    if isinstance(declared, str):
        return declared
    functions = (node for cls in family for node in cls.body if isinstance(node, ast.FunctionDef))
    init = next((node for node in functions if node.name == "init"), None)
    if init is None:
        return ConfigKind.EITHER if _may_have(family, "init") else ConfigKind.NONE
    parameters = [*init.args.posonlyargs, *init.args.args]
    annotation = parameters[-1].annotation if parameters else None
    kinds = {_kind_of_type(each, classes) for each in _members(annotation)}
    return kinds.pop() if len(kinds) == 1 else ConfigKind.EITHER


def _members(annotation: ast.expr | None) -> Iterator[ast.expr | None]:
    """The members of a union, without None; any other type by itself."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        yield from _members(annotation.left)
        yield from _members(annotation.right)
    elif isinstance(annotation, ast.Subscript) and _last_name(annotation.value) in _UNIONS:
        inner = annotation.slice
        for part in inner.elts if isinstance(inner, ast.Tuple) else [inner]:
            yield from _members(part)
    elif isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from _members(ast.parse(annotation.value, mode="eval").body)
    elif not isinstance(annotation, ast.Constant):
        yield annotation


_UNIONS: Final = ("Optional", "Union")
_MAPPINGS: Final = ("dict", "Dict", "Mapping", "MutableMapping")


def _kind_of_type(annotation: ast.expr | None, classes: dict[str, ast.ClassDef]) -> str:
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    name = _last_name(outer)
    if name == "str":
        return ConfigKind.TEXT
    bases = map(_last_name, classes[name].bases) if name in classes else ()
    is_table = name in _MAPPINGS or "TypedDict" in bases
    return ConfigKind.TABLE if is_table else ConfigKind.EITHER


def _last_name(expression: ast.expr | None) -> str:
    return str(getattr(expression, "attr", getattr(expression, "id", "")))


def _literal(family: list[ast.ClassDef], name: str) -> Any:
    """The value of a class attribute that is a literal, possibly inherited in the same file."""
    for node in (node for cls in family for node in cls.body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if value is not None and any(getattr(target, "id", "") == name for target in targets):
            try:
                return ast.literal_eval(value)
            except ValueError:
                return None
    return None


PACKAGE: Final = Path(__file__).parents[1]

CONTRACT: Final = (
    "__init__.py",
    "_lazy.py",
    "errors.py",
    "typing.py",
    "_contract",
    "_sandbox/__init__.py",
    "_sandbox/guest",
)
"""The parts of this package that a guest contains."""

APP: Final = "torvyn_app"

WORLDS: Final = {
    "source": ("polled-data-source", "torvyn:streaming/polled-source@0.2.0"),
    "processor": ("expanding-transform", "torvyn:streaming/expander@0.2.0"),
    "filter": ("content-guard", "torvyn:filtering/guard@0.2.0"),
    "router": ("content-router", "torvyn:filtering/router@0.1.0"),
    "aggregator": ("stream-aggregator", "torvyn:aggregation/aggregator@0.1.0"),
    "sink": ("data-sink", "torvyn:streaming/sink@0.1.0"),
}
"""Role -> the name of its world and the interface it exports."""

BATCHES: Final = {
    "processor": "BatchProcessor",
    "filter": "BatchFilter",
    "aggregator": "BatchAggregator",
    "sink": "BatchSink",
}
"""Role -> the class with its batch function. A source has none, because it may wait."""

ENCODINGS: Final = (
    "ascii",
    "cp1252",
    "idna",
    "latin_1",
    "punycode",
    "utf_16",
    "utf_16_be",
    "utf_16_le",
    "utf_32",
    "utf_32_be",
    "utf_32_le",
    "utf_8_sig",
)
"""Imported at build time, because a guest has no disk to load codecs from later. Connecting to a
host by name needs `idna`."""

_WORLD: Final = """package torvyn:components@0.2.0;

world python-guest {{
    import torvyn:streaming/types@0.1.0;
    import torvyn:streaming/buffer-allocator@0.1.0;
    import torvyn:streaming/details@0.2.0;
    export torvyn:streaming/lifecycle@0.1.0;
{exports}}}
"""
"""A Python guest of any role imports `details`, for attributes and ends."""


def toolchain(guest: GuestProject) -> str:
    if importlib.util.find_spec("componentize_py") is None:
        raise toolchain_missing(guest, "componentize-py", "python-guest")
    return f"componentize-py {importlib.metadata.version('componentize-py')}"


def inputs(guest: GuestProject) -> list[Path]:
    """Every file that can affect the component."""
    return [*contract_files(), *guest.source_files]


def build_component(guest: GuestProject) -> ComponentBinary:
    source = read_class(guest)
    with tempfile.TemporaryDirectory(prefix="torvyn-build-") as folder:
        root = Path(folder)
        _stage(guest, source, root / "app")
        write_contracts(root / "wit", [source.role], _optional(source))
        component = componentize(guest, root)
    notes = {"unit": source.unit, "config": source.config_kind, "ports": ",".join(source.ports)}
    for name, text in notes.items():
        if text:
            component = _native.WasmTools.annotate(component, name, text)
    return ComponentBinary(component, WORLDS[source.role][0])


def contract_files() -> list[Path]:
    files: list[Path] = []
    for name in CONTRACT:
        path = PACKAGE / name
        files += path.glob("*.py") if path.is_dir() else [path]
    return sorted(files)


def copy_contract(app: Path) -> None:
    _copy(PACKAGE.parent, contract_files(), app)


def _copy(folder: Path, files: Iterable[Path], app: Path) -> None:
    for file in files:
        target = app / file.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def _stage(guest: GuestProject, source: ClassSource, app: Path) -> None:
    copy_contract(app)
    _copy(guest.folder, guest.source_files, app)
    (app / f"{APP}.py").write_text(
        _app(source, imported_modules(guest.source_files)), encoding="utf-8"
    )


def _app(source: ClassSource, modules: set[str]) -> str:
    """The main module. The guest can use only what this module imports."""
    lines = ["import contextlib"]
    for module in sorted(modules | {f"encodings.{name}" for name in ENCODINGS}):
        lines += ["with contextlib.suppress(ImportError):", f"    import {module}"]
    return "\n".join(
        [
            *lines,
            f"from {source.module} import {source.name}",
            "from torvyn._sandbox.guest import adapter",
            f"from torvyn._sandbox.guest.as_{source.role} import *",
            f"adapter.component_class = {source.name}",
            *_optional_lines(source),
            "",
        ]
    )


def _optional(source: ClassSource) -> list[str]:
    """The interfaces of 0.3.0 that the guest exports."""
    names = [f"batch-{source.role}"] if source.role in BATCHES else []
    names += ["state"] if source.has_state else []
    return [f"torvyn:streaming/{name}@0.3.0" for name in names]


def _optional_lines(source: ClassSource) -> list[str]:
    lines = []
    if source.role in BATCHES:
        lines = [
            "from torvyn._sandbox.guest import batches",
            f"from wit_world.exports import batch_{source.role} as _wire",
            "batches.wire = _wire",
            f"from torvyn._sandbox.guest.batches import {BATCHES[source.role]}",
        ]
    if source.has_state:
        lines.append("from torvyn._sandbox.guest.state import State")
    return lines


def write_contracts(folder: Path, roles: Iterable[str], optional: Iterable[str] = ()) -> None:
    """Writes the built-in WIT into a self-contained folder, with a world for these roles."""
    for path, text in _native.WasmTools.wit_files():
        relative = path.removeprefix("0.2/").removeprefix("0.3/")
        if relative.startswith("deps/"):
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    names = [*(WORLDS[role][1] for role in roles), *optional]
    exports = "".join(f"    export {name};\n" for name in names)
    (folder / "world.wit").write_text(_WORLD.format(exports=exports), encoding="utf-8")


def componentize(guest: GuestProject, root: Path) -> bytes:
    target = root / "component.wasm"
    script = "import sys, componentize_py; sys.exit(componentize_py.script())"
    command = [sys.executable, "-c", script, "--quiet"]
    command += ["-d", str(root / "wit"), "-w", "python-guest"]
    command += ["componentize", "-p", str(root / "app"), APP, "-o", str(target)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode != 0 or not target.is_file():
        raise _build_error(guest, done.stdout + done.stderr)
    return target.read_bytes()


def _build_error(guest: GuestProject, text: str) -> ContractError:
    """The error with the last line of the traceback."""
    reasons = re.findall(r"^\s*(\w+(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    reason = reasons[-1] if reasons else text.strip() or "componentize-py gave no reason"
    return ContractError(
        "sandbox.compile-failed",
        f"cannot build component `{guest.name}`: {reason}",
        hint="every module that it imports must be installed and be pure Python",
    )
