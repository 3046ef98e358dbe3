"""Names -> component classes: declared by the project, built in, or installed by third parties.

Link only imports classes; the reactor creates components with `instantiate`.
"""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from torvyn._contract.inspection import class_name, describe_error, module_name, read_attribute
from torvyn._contract.roles import ROLES, AnyComponent, Component
from torvyn._io import native_parts
from torvyn._link.component_traits import is_component_class
from torvyn._link.plan import ComponentRef
from torvyn._link.private_imports import open_folder
from torvyn._manifest.problems import Problems
from torvyn._manifest.records import ComponentRecord
from torvyn._manifest.setting_records import GrantRecord
from torvyn._sandbox.project import wasm_path
from torvyn.components import BUILTINS, ENGINE_PROCESSORS, ENGINES, REQUEST, SINKS
from torvyn.errors import (
    ContractError,
    LinkError,
    Location,
    TorvynError,
    nearest,
    quoted,
    suggestion,
)

if TYPE_CHECKING:
    from torvyn._artifact.lock import Lock

_GROUP: Final = "torvyn.components"
_UNKNOWN: Final = "declare it with `[[component]]`, or use a built-in one"
_UNKNOWN_IN_PROGRAM: Final = (
    "a text names a built-in component, such as `sentence`; texts to send go into a list"
)


@dataclass(frozen=True, slots=True)
class LoadedComponent:
    """A component and how to create it: its class, or the live object."""

    ref: ComponentRef
    component: AnyComponent


@dataclass(frozen=True, slots=True)
class Library:
    """Finds components by name: declared ones first, then built-in and installed ones."""

    declared: Mapping[str, ComponentRecord] = field(default_factory=dict)
    folder: Path = Path()
    """The folder that declared paths are relative to."""
    grants: Mapping[str, GrantRecord] = field(default_factory=dict)
    cache_dir: Path | None = None
    """The folder of compiled components; None means the user's cache."""
    lock: Lock | None = None
    """The digests that the components must have."""
    output_folder: Path | None = None
    """The folder that the paths of state and audit files are relative to; None means `folder`."""

    @property
    def written(self) -> Path:
        return self.folder if self.output_folder is None else self.output_folder

    def find(
        self, name: str, location: Location | None, problems: Problems, *, has_input: bool = False
    ) -> LoadedComponent | None:
        """The component with this name, or None and a problem. With an input, an engine is a
        processor, and a name that a source and a sink share is the sink."""
        record = self.declared.get(name)
        if name.startswith("oci:"):
            return self._find_artifact(name, location, problems)
        if record is not None:
            return self._find_declared(record, problems)
        if name.endswith(".wasm"):
            return self._find_guest(Path(name).stem, self.folder / name, location, problems)
        target = _builtin(name, has_input)
        if target is not None:
            return _find(ComponentRef("builtin", name, target), location, problems)
        third_party = _installed_components()
        if name in third_party:
            return _find(ComponentRef("entry-point", name, third_party[name]), location, problems)
        known = [*self.declared, *BUILTINS, *SINKS, *REQUEST, *ENGINES, *third_party]
        advice = suggestion(
            name, known, _UNKNOWN if location and location.file else _UNKNOWN_IN_PROGRAM
        )
        message = f"unknown component `{name}`"
        problems.add("link.component-unknown", message, location, advice)
        return None

    def warm(self, names: Iterable[str]) -> None:
        """Compiles the guests among them in parallel."""
        guests = {self._guest(name) for name in names} - {None}
        if len(guests) > 1:
            from torvyn._sandbox.compiler import preload

            cached = self._cached()
            preload([guest for guest in guests if guest], Path(cached) if cached else None)

    def _guest(self, name: str) -> Path | None:
        record = self.declared.get(name)
        if record is not None:
            found = self._wasm_path(record)
        else:
            found = self.folder / name if name.endswith(".wasm") else None
        return found and found.resolve()

    def _find_guest(
        self, name: str, path: Path, location: Location | None, problems: Problems
    ) -> LoadedComponent | None:
        ref = ComponentRef("wasm", name, str(path.resolve()), cache_dir=self._cached())
        return _find(ref, location, problems)

    def _find_artifact(
        self, reference: str, location: Location | None, problems: Problems
    ) -> LoadedComponent | None:
        # Flows without such components never load this module.
        from torvyn._link.artifacts import fetch_component

        try:
            path, warnings = fetch_component(reference, self.folder, self.lock, self.cache_dir)
        except TorvynError as error:
            problems.add_error(error.at(location) if location else error)
            return None
        for warning in warnings:
            problems.warn(warning.code, warning.message, location, warning.hint)
        return self._find_guest(artifact_name(reference), path, location, problems)

    def _cached(self) -> str:
        return str(self.cache_dir.resolve()) if self.cache_dir else ""

    def _wasm_path(self, record: ComponentRecord) -> Path | None:
        locked = self.lock.component(record.name) if self.lock else None
        return wasm_path(record, self.folder, locked.language if locked else "")

    def _find_declared(self, record: ComponentRecord, problems: Problems) -> LoadedComponent | None:
        location = record.at("entry" if record.entry else "path")
        guest = self._wasm_path(record)
        if guest is not None:
            native_parts.require("sandbox")
            if not guest.is_file():
                message = f"component `{record.name}` has no file `{display_path(str(guest))}`"
                hint = "build it with `torvyn build`" if guest.parent.name == "build" else None
                problems.add("link.component-missing", message, record.at("path"), hint)
                return None
            _warn_outdated(record, guest, problems)
            return self._find_guest(record.name, guest, location, problems)
        target = _declared_target(record, self.folder / record.path, problems)
        if target is None:
            return None
        found = _find(ComponentRef("project", record.name, target), location, problems)
        if found is None or isinstance(found.component, Component):
            return found
        named = f"{target.rpartition(':')[0]}:{class_name(found.component)}"
        return LoadedComponent(ComponentRef("project", record.name, named), found.component)


def artifact_name(reference: str) -> str:
    """The name of a component that a node takes from an artifact: the last part of the path."""
    path = reference.partition("@")[0].rpartition("/")[2]
    return path.removeprefix("oci:").partition(":")[0]


def _builtin(name: str, has_input: bool) -> str | None:
    """The `module:Class` of a built-in component."""
    if has_input and name in SINKS:
        return SINKS[name]
    engines = ENGINE_PROCESSORS if has_input else ENGINES
    return BUILTINS.get(name) or engines.get(name) or REQUEST.get(name)


def _installed_components() -> dict[str, str]:
    """The components of installed packages: name -> `module:Class`."""
    # Slow, and most flows do not need it.
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=_GROUP)}


def _warn_outdated(record: ComponentRecord, path: Path, problems: Problems) -> None:
    """Warns when the built file is older than its sources."""
    # Flows without guests never load this module.
    from torvyn._sandbox.project import GuestProject, detect_language

    folder = path.parent.parent
    guest = GuestProject(
        record.name, folder, record.language or detect_language(folder) or "", record.entry
    )
    if path == guest.target and guest.is_outdated:
        message = f"component `{record.name}` was built before its files were changed"
        hint = "rebuild it with `torvyn build`; the old build runs until then"
        problems.warn("link.component-outdated", message, record.at("path"), hint)


def _declared_target(record: ComponentRecord, path: Path, problems: Problems) -> str | None:
    """`folder/file.py:Class`; the class is empty when the entry does not name one."""
    entry = record.entry or "component.py"
    folder = path
    if path.suffix == ".py" and os.path.isfile(path):
        folder, entry = path.parent, record.entry or path.name
    module, _, name = entry.partition(":")
    module = module or "component.py"
    if not os.path.isdir(folder):
        message = f"the folder `{record.path}` of component `{record.name}` does not exist"
        hint = _near_path(record.path, folder) or "paths are relative to the manifest's folder"
        problems.add("link.component-missing", message, record.at("path"), hint)
        return None
    if module.endswith(".py") and not os.path.isfile(folder / module):
        message = f"component `{record.name}` has no file `{module}` in `{record.path}`"
        hint = "`entry` names another file, or `module:Class`"
        problems.add("link.component-missing", message, record.at("path"), hint)
        return None
    return f"{folder.resolve() / module}:{name}"


def _near_path(text: str, path: Path) -> str | None:
    """A hint with the path that was probably meant, beside one that does not exist."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return None
    close = nearest(path.name, names)
    return f"did you mean `{os.path.join(os.path.dirname(text), close)}`?" if close else None


def _find(
    ref: ComponentRef, location: Location | None, problems: Problems
) -> LoadedComponent | None:
    try:
        return LoadedComponent(ref, load_class(ref))
    except (LinkError, ContractError) as error:
        problems.cause = problems.cause or error.__cause__
        problems.extend(error.at(location).diagnostics if location else error.diagnostics)
        return None


def instantiate(ref: ComponentRef) -> Component:
    """A new component, or the live object of the ref."""
    if ref.instance is not None:
        instance: Component = ref.instance
        return instance
    cls = load_class(ref)
    try:
        return cls()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"component `{ref.name}` cannot be created: {describe_error(error)}"
        hint = "`__init__` must not need arguments; `init` receives the config"
        raise LinkError("link.component-construct", message, hint=hint) from error


def load_class(ref: ComponentRef) -> type[Component]:
    """The class of a ref; raises `LinkError`, or `ContractError` when it cannot be inspected."""
    if ref.kind == "wasm":
        # The WebAssembly engine is large; flows without guests never load it.
        from torvyn._sandbox.component import guest_class

        cache_dir = Path(ref.cache_dir) if ref.cache_dir else None
        return guest_class(Path(ref.target), ref.name, cache_dir)
    target, _, name = ref.target.rpartition(":")
    try:
        module = _import(ref, target)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failed(ref, error) from error
    if name:
        return _named_class(ref, module, name)
    return _only_class(ref, module)


def _import(ref: ComponentRef, target: str) -> ModuleType:
    if ref.kind != "project":
        return importlib.import_module(target)
    path = Path(target)
    module = path.stem if path.suffix == ".py" else path.name
    return open_folder(path.parent).load(module)


def _named_class(ref: ComponentRef, module: ModuleType, name: str) -> type[Component]:
    found: Any = module
    for part in name.split("."):
        found = read_attribute(found, part, None)
    if is_component_class(found):
        return found  # type: ignore[no-any-return]
    have = [class_name(cls) for cls in _classes(module)]
    known = f"its components are {quoted(have)}" if have else _ROLE_HINT
    message = f"component `{ref.name}`: `{name}` is not a component class"
    raise LinkError("link.entry-unknown", message, hint=suggestion(name, have, known))


def _only_class(ref: ComponentRef, module: ModuleType) -> type[Component]:
    found = _classes(module)
    if len(found) == 1:
        return found[0]
    file = os.path.basename(module.__file__ or module.__name__)
    if not found:
        message = f"component `{ref.name}`: `{file}` has no class with a role"
        raise LinkError("link.component-no-class", message, hint=_ROLE_HINT)
    names = [class_name(cls) for cls in found]
    message = f"component `{ref.name}`: `{file}` has {len(names)} classes with a role"
    stem = file.removesuffix(".py")
    choices = quoted((f"{stem}:{name}" for name in names), "or")
    raise LinkError("link.component-many-classes", message, hint=f"set `entry` to {choices}")


_ROLE_HINT: Final = f"subclass one of {quoted((f'torvyn.{role.title()}' for role in ROLES), 'or')}"


def _classes(module: ModuleType) -> list[type[Component]]:
    """The public component classes that the module itself defines."""
    return [
        thing
        for name, thing in vars(module).items()
        if is_component_class(thing)
        and module_name(thing) == module.__name__
        and not name.startswith("_")
    ]


def _import_failed(ref: ComponentRef, error: BaseException) -> LinkError:
    message = f"component `{ref.name}` cannot be imported: {describe_error(error)}"
    location = _location(ref, error)
    if isinstance(error, SyntaxError):
        message = f"component `{ref.name}` cannot be imported: {error.msg}"
    return LinkError("link.component-import", message, location=location, hint=_import_hint(error))


def _import_hint(error: BaseException) -> str | None:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install `{error.name}`, or put `{error.name}.py` into the component's folder"
    return None


def _location(ref: ComponentRef, error: BaseException) -> Location | None:
    """The line in the component's own files where the import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return Location(display_path(error.filename), error.lineno, error.offset)
    if ref.kind != "project":
        return None
    folder = os.path.dirname(ref.target.rpartition(":")[0]) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(folder)]
    return Location(display_path(own[-1].filename), own[-1].lineno) if own else None


def display_path(path: str) -> str:
    """The path relative to the current folder, if it is inside it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return path
