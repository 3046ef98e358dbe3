"""Private imports: each component folder is a package of its own, so that names cannot collide.

Two components may each have a `model.py`. The modules of a folder run with a private `__import__`
that searches the folder first and registers its modules under a private package name, also for
imports inside functions. They are real modules in `sys.modules`, so their classes can be pickled
within the process and inspected, and tracebacks look as usual.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "torvyn_project_"

_folders: dict[str, Folder] = {}


class Folder:
    """A component's folder as a package."""

    def __init__(self, path: Path) -> None:
        self.path = path
        slug = re.sub(r"\W", "_", path.name)
        digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
        self.package = f"{PREFIX}{slug}_{digest}"
        self.stamps: dict[Path, tuple[int, int]] = {}
        """The time and size of each imported file, to detect changes."""
        self._owned: dict[str, bool] = {}

    def load(self, module: str) -> ModuleType:
        """A module of the folder, or an installed one when the folder has none with this name."""
        if self.owns(module.partition(".")[0]):
            return importlib.import_module(f"{self.package}.{module}")
        return importlib.import_module(module)

    def owns(self, name: str) -> bool:
        """Whether an import of `name` refers to a file in the folder.

        Cached until the next link, because an import in a method must not read the disk each time.
        """
        if name not in self._owned:
            self._owned[name] = self._is_beside(name)
        return self._owned[name]

    def _is_beside(self, name: str) -> bool:
        beside = self.path / name
        if beside.with_name(f"{name}.py").is_file() or (beside / "__init__.py").is_file():
            return True
        # A folder without `__init__.py` must not hide an installed package of its name.
        return beside.is_dir() and name not in sys.modules and not importlib.util.find_spec(name)

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`__import__` as the folder's modules see it."""
        top = name.partition(".")[0]
        if level or not self.owns(top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist or (), 0)
        return module if fromlist else sys.modules[f"{self.package}.{top}"]

    def refresh(self) -> None:
        """Unloads the modules when one of their files has changed."""
        self._owned.clear()
        if any(_stamp(path) != stamp for path, stamp in self.stamps.items()):
            self.stamps.clear()
            for name in [name for name in sys.modules if self.contains(name)]:
                del sys.modules[name]
        if self.package not in sys.modules:
            spec = ModuleSpec(self.package, None, is_package=True)
            spec.submodule_search_locations = [str(self.path)]
            sys.modules[self.package] = importlib.util.module_from_spec(spec)

    def contains(self, module: str) -> bool:
        """Whether the module was loaded from this folder."""
        return module == self.package or module.startswith(f"{self.package}.")


def open_folder(path: Path) -> Folder:
    """The folder as a package, up to date with the disk."""
    path = path.resolve()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    folder = Folder(path)
    folder = _folders.setdefault(folder.package, folder)
    folder.refresh()
    return folder


class _Finder:
    """Finds modules of the private packages only."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        folder = _folders.get(fullname.partition(".")[0])
        if folder is None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(folder, fullname, spec.loader.path)
            spec.cached = None
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, folder: Folder, fullname: str, path: str) -> None:
        super().__init__(fullname, path)
        self._folder = folder

    def exec_module(self, module: ModuleType) -> None:
        file = Path(self.path)
        self._folder.stamps[file] = _stamp(file)
        private: dict[str, Any] = {**vars(builtins), "__import__": self._folder.import_}
        vars(module)["__builtins__"] = private
        super().exec_module(module)

    def path_stats(self, path: str) -> Mapping[str, Any]:
        # Disables the bytecode cache, which can hide an edit within the same second.
        raise OSError(path)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        facts = path.stat()
    except OSError:
        return (0, 0)
    return (facts.st_mtime_ns, facts.st_size)
