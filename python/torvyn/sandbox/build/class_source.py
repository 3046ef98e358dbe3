"""Reads class, role, unit, config and ports from a component's Python file, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from torvyn._contract.enums import ConfigKind
from torvyn._contract.roles import BATCH_METHODS, METHODS, ROLES
from torvyn.errors import ContractError, Location
from torvyn.sandbox.build.project import GuestProject, display_path

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
