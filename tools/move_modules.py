"""Moves modules, or some of their names, and rewrites everything that mentions them.

    python tools/move_modules.py torvyn.durable.clock torvyn._durable.disk.clock
    python tools/move_modules.py torvyn.protocol.retry_after:retry_after_s torvyn._io.backoff
    python tools/move_modules.py --table moves.tsv --only durable
    python tools/move_modules.py --direct torvyn.durable

A line of a table is `old<TAB>new`, as paths below the package (`durable/clock.py`) or as dotted
names; what follows a second tab, or a comma, is a remark. Several modules may move to one: their
imports are united, their statements follow each other, and the names that clash are listed before
anything is written. `--rename torvyn.durable.clock:_now=_wall_clock` renames one of them first.

Rewritten are imports, wherever they stand, uses of a module that is imported by name, and text such
as `torvyn.durable.clock:Clock` or `python/torvyn/durable/clock.py` in code, stubs, Rust and
documents. `--direct` comes before a move: names that a package re-exports are imported from their
modules, and only the docstring of the package is left. The name of a logger is text that stays:
users match it. CHANGELOG.md stays as well. What a person decides afterwards: docstrings, the order
of statements, the names, the tables of lazy facades, and imports for their effect alone, which are
dropped like others that nobody uses.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

TEXT_SUFFIXES: Final = {".md", ".rs", ".pyi", ".toml", ".yml", ".yaml", ".txt", ".sh", ".json"}
UNTOUCHED: Final = {"CHANGELOG.md", "move_modules.py"}
LOGGER: Final = re.compile(r"""getLogger\(\s*["']([\w.]+)["']""")


class MoveError(Exception):
    """A move that cannot be done; nothing was written."""


@dataclass(frozen=True)
class Move:
    """`old` is a dotted module; `names` are those that move, all of them when it is empty."""

    old: str
    new: str
    names: frozenset[str] = frozenset()
    is_package: bool = False
    """Whether the file at its new place is an `__init__.py`."""


@dataclass
class Project:
    """The files of a repository, and where its package lies."""

    root: Path
    package: str = "torvyn"
    folder: str = "python"
    texts: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        listed = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            path = self.root / name
            known = path.suffix == ".py" or path.suffix in TEXT_SUFFIXES or path.name == "Makefile"
            if known and path.name not in UNTOUCHED and path.is_file() and not path.is_symlink():
                self.texts[path] = path.read_text(encoding="utf-8")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True
        )
        return done.stdout

    def path_of(self, module: str) -> Path | None:
        """The file of a module that exists."""
        path = self.root / self.folder / module.replace(".", "/")
        for each in (path.with_suffix(".py"), path / "__init__.py"):
            if each in self.texts:
                return each
        return None

    def module_of(self, path: Path) -> str | None:
        """The dotted name of a file of the package."""
        folder = self.root / self.folder
        if path.suffix != ".py" or not path.is_relative_to(folder / self.package):
            return None
        parts = path.relative_to(folder).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def loggers(self) -> frozenset[str]:
        return frozenset(name for text in self.texts.values() for name in LOGGER.findall(text))


class Moves:
    """Answers where a module or one of its names goes."""

    def __init__(self, moves: Iterable[Move]) -> None:
        self.whole: dict[str, str] = {}
        self.parts: dict[tuple[str, str], str] = {}
        for move in moves:
            if move.names:
                self.parts |= {(move.old, name): move.new for name in move.names}
            elif move.old != move.new:
                self.whole[move.old] = move.new

    def home(self, module: str, name: str | None = None) -> str:
        """Where `name` of `module` is to be found afterwards."""
        if name is not None and (module, name) in self.parts:
            return self.parts[module, name]
        return self.whole.get(module, module)

    def is_moved(self, module: str) -> bool:
        return module in self.whole or any(old == module for old, _ in self.parts)


Edit = tuple[int, int, str]
"""The first and the last offset of what is replaced, and by what."""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Edits that lie within an earlier one are dropped."""
    written: list[str] = []
    end = 0
    for first, last, new in sorted(edits, key=lambda each: (each[0], -each[1])):
        if first >= end:
            written += [text[end:first], new]
            end = last
    return "".join([*written, text[end:]])


class Offsets:
    """The offset in the text of a position of the syntax tree, which counts bytes in a line."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        if line > len(self._lines):
            return self._starts[-1]
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def of(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


class Rewriter:
    """Rewrites one Python file whose own module will be `home`."""

    def __init__(self, text: str, moves: Moves, home: str | None, modules: frozenset[str]) -> None:
        self.text, self._moves, self._home, self._modules = text, moves, home, modules
        self._tree = ast.parse(text)
        self._offsets = Offsets(text)
        self._bound = {each.id for each in ast.walk(self._tree) if isinstance(each, ast.Name)} | {
            alias.asname or alias.name.partition(".")[0]
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        self._edits: list[Edit] = []
        self._renamed: dict[str, str] = {}
        self._own: set[str] = set()

    def imports(self) -> str:
        """The text with its imports rewritten, and with the uses of modules that changed names."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self._rewrite_from(node)
            elif isinstance(node, ast.Import):
                self._rewrite_import(node)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                first, _ = self._offsets.of(node.value)
                _, last = self._offsets.of(node)
                if node.value.id in self._own:
                    self._edits.append((first, last, node.attr))
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node.id in self._renamed:
                self._edits.append((*self._offsets.of(node), self._renamed[node.id]))
        return apply(self.text, self._edits)

    def _rewrite_import(self, node: ast.Import) -> None:
        names = [
            self._moves.home(alias.name) + (f" as {alias.asname}" if alias.asname else "")
            for alias in node.names
        ]
        self._edits.append((*self._offsets.of(node), "import " + ", ".join(names)))

    def _rewrite_from(self, node: ast.ImportFrom) -> None:
        assert node.module is not None
        lines: dict[str, list[str]] = {}
        for alias in node.names:
            home, name = self._target(node.module, alias)
            if home is not None:
                lines.setdefault(home, []).append(name)
        old = {node.module: [f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names]}
        if lines == old:
            return
        indent = "\n" + " " * node.col_offset
        new = indent.join(f"from {home} import {', '.join(names)}" for home, names in lines.items())
        first, last = self._offsets.of(node)
        self._edits.append((first, last, new or ("pass" if node.col_offset else "")))

    def _target(self, module: str, alias: ast.alias) -> tuple[str | None, str]:
        """The module to import from and the text after `import`; None is the file itself."""
        inner = f"{module}.{alias.name}"
        if inner not in self._modules or (module, alias.name) in self._moves.parts:
            home = self._moves.home(module, alias.name)
            as_name = f" as {alias.asname}" if alias.asname else ""
            if home == self._home and not (as_name and alias.asname != alias.name):
                return None, ""
            return home, alias.name + as_name
        home = self._moves.home(inner)
        bound = alias.asname or alias.name
        if home == self._home:
            self._own.add(bound)
            return None, ""
        folder, _, leaf = home.rpartition(".")
        if alias.asname is not None or leaf == alias.name:
            return folder, leaf + (f" as {alias.asname}" if alias.asname else "")
        if leaf in self._bound:
            return folder, f"{leaf} as {alias.name}"
        self._renamed[alias.name] = leaf
        return folder, leaf


class Mentions:
    """Rewrites dotted names and paths in text."""

    def __init__(
        self,
        project: Project,
        moves: Moves,
        modules: frozenset[str],
        new_paths: Mapping[str, str],
    ) -> None:
        package = re.escape(project.package)
        self._dotted = re.compile(rf"(?<![\w./]){package}(?:\.\w+)+(?::\w+)?")
        self._path = re.compile(rf"(?<![\w-]){package}(?:/\w+)+\.pyi?\b")
        self._moves, self._modules, self._paths = moves, modules, new_paths
        self._loggers = project.loggers()

    def rewrite(self, text: str) -> str:
        return self._path.sub(self._new_path, self._dotted.sub(self._new_name, text))

    def _new_path(self, found: re.Match[str]) -> str:
        return self._paths.get(found[0], found[0])

    def _new_name(self, found: re.Match[str]) -> str:
        dotted, colon, attribute = found[0].partition(":")
        if not colon and dotted in self._loggers:
            return found[0]
        parts = dotted.split(".")
        for length in range(len(parts), 1, -1):
            module, rest = ".".join(parts[:length]), parts[length:]
            if self._moves.is_moved(module):
                name = rest[0] if rest else attribute or None
                return ".".join([self._moves.home(module, name), *rest]) + colon + attribute
            if module in self._modules:
                break
        return found[0]


@dataclass
class Chunk:
    """One statement of a module, with the comments before it and the docstring after it."""

    text: str
    defines: frozenset[str]
    uses: frozenset[str]


class Parts:
    """A module as docstring, imports and statements."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self.docstring = ast.get_docstring(tree, clean=False)
        self.imports: list[str] = []
        self.typing_imports: list[str] = []
        self.chunks: list[Chunk] = []
        lines = text.splitlines(keepends=True)
        body = tree.body[1:] if self.docstring is not None else tree.body
        end = tree.body[0].end_lineno or 0 if self.docstring is not None else 0
        for node in body:
            last = node.end_lineno or 0
            written = "".join(lines[end:last])
            end = last
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports.append(written.strip())
            elif (imports := _typing_imports(node)) is not None:
                self.typing_imports += [ast.unparse(each) for each in imports]
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                self.chunks[-1].text += written
            else:
                uses = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                self.chunks.append(Chunk(written, _defined(node), frozenset(uses)))
        self.tail = "".join(lines[end:])

    def render(self) -> str:
        text = f'"""{self.docstring}"""\n\n' if self.docstring is not None else ""
        future = [each for each in self.imports if "__future__" in each]
        others = [each for each in self.imports if "__future__" not in each]
        text += "\n".join([*dict.fromkeys(future), "", *dict.fromkeys(others), ""])
        known = {name for each in others for name in _bindings(each)}
        typing = [
            line for each in dict.fromkeys(self.typing_imports) for line in _without(each, known)
        ]
        if typing:
            text += "\nif TYPE_CHECKING:\n" + "".join(f"    {each}\n" for each in typing)
        return text + "".join(each.text for each in self.chunks) + self.tail

    def bindings(self) -> dict[str, str]:
        """What each imported name stands for."""
        found: dict[str, str] = {}
        for each in [*self.typing_imports, *self.imports]:
            found |= _bindings(each)
        return found


def _typing_imports(node: ast.stmt) -> list[ast.stmt] | None:
    """What `if TYPE_CHECKING:` imports, if it does nothing else."""
    if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and not node.orelse):
        return None
    only_imports = all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)
    return node.body if node.test.id == "TYPE_CHECKING" and only_imports else None


def _defined(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return frozenset({node.name})
    return frozenset(_stored(node))


def _stored(node: ast.AST) -> Iterator[str]:
    """The names that are assigned, without those of comprehensions."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.comprehension):
            yield from _stored(each)


def _bindings(statement: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.parse(statement).body:
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname or a.name.partition(".")[0]: a.name for a in node.names if a.asname}
    return found


def _without(statement: str, names: set[str]) -> list[str]:
    """An import without the names that are imported anyway."""
    node = ast.parse(statement).body[0]
    assert isinstance(node, ast.Import | ast.ImportFrom)
    node.names = [each for each in node.names if (each.asname or each.name) not in names]
    return [ast.unparse(node)] if node.names else []


def unite(target: str, parts: Sequence[tuple[str, Parts]]) -> Parts:
    """One module of several; the first gives the docstring its first lines."""
    clashes: list[str] = []
    united = parts[0][1]
    origin = {name: parts[0][0] for chunk in united.chunks for name in chunk.defines}
    texts = {chunk.text.strip() for chunk in united.chunks}
    bound = united.bindings()
    for module, part in parts[1:]:
        for name, meaning in part.bindings().items():
            if bound.setdefault(name, meaning) != meaning:
                clashes.append(f"{name}: {bound[name]} and {meaning} ({module})")
        for chunk in part.chunks:
            if chunk.text.strip() in texts:
                continue
            clashes += [
                f"{name}: defined in {origin[name]} and in {module}"
                for name in chunk.defines & origin.keys()
                if origin[name] != module
            ]
            origin |= dict.fromkeys(chunk.defines, module)
            texts.add(chunk.text.strip())
            united.chunks.append(chunk)
        united.imports += part.imports
        united.typing_imports += part.typing_imports
        if part.docstring:
            first = united.docstring or ""
            united.docstring = f"{first.rstrip()}\n\n{part.docstring.strip()}\n".lstrip()
    clashes += [
        f"{name}: imported as {bound[name]}, defined in {origin[name]}"
        for name in bound.keys() & origin.keys()
    ]
    if clashes:
        raise MoveError(f"names clash in {target}:\n  " + "\n  ".join(sorted(clashes)))
    return united


def divide(text: str, names: frozenset[str], old: str, new: str) -> tuple[Parts, Parts]:
    """What stays in a module, and what moves; each imports from the other what it uses of it."""
    stays, moves = Parts(text), Parts(text)
    defined = {name for chunk in stays.chunks for name in chunk.defines}
    if missing := names - defined:
        raise MoveError(f"{old} defines no {', '.join(sorted(missing))}")
    moves.chunks = [chunk for chunk in moves.chunks if chunk.defines & names]
    stays.chunks = [chunk for chunk in stays.chunks if not chunk.defines & names]
    moves.docstring, moves.tail = None, ""
    for part, other, module in ((stays, moves, new), (moves, stays, old)):
        theirs = {name for chunk in other.chunks for name in chunk.defines}
        used = {name for chunk in part.chunks for name in chunk.uses} & theirs
        part.imports += [f"from {module} import {name}" for name in sorted(used)]
    return stays, moves


def rename(text: str, old: str, new: str) -> str:
    """A name of a module, wherever it is not an attribute of something else."""
    edits: list[Edit] = []
    offsets = Offsets(text)
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string == old and before != ".":
            line = token.line.encode()
            column = len(token.line[: token.start[1]].encode()) if line else 0
            first = offsets.at(token.start[0], column)
            edits.append((first, first + len(old), new))
        before = token.string
    return apply(text, edits)


class Mover:
    """Does all moves in memory, then writes."""

    def __init__(self, project: Project, moves: Sequence[Move]) -> None:
        self._project, self._list, self._moves = project, moves, Moves(moves)
        self._modules = frozenset(filter(None, map(project.module_of, project.texts)))
        self._written: dict[Path, str] = {}
        self._removed: list[Path] = []
        self._renamed: dict[Path, Path] = {}
        for move in moves:
            if move.old not in self._modules:
                raise MoveError(f"there is no module {move.old}")
            if self._moves.whole.get(move.new, move.new) != move.new:
                raise MoveError(f"{move.new} moves as well: do it in two steps")

    def _new_path(self, move: Move) -> Path:
        project = self._project
        new = project.root / project.folder / move.new.replace(".", "/")
        if (found := project.path_of(move.new)) is not None:
            return found
        return new / "__init__.py" if move.is_package else new.with_suffix(".py")

    def run(self, write: bool = True) -> list[str]:
        """The files that were written, relative to the root."""
        texts = self._rewritten_files()
        self._place(texts)
        self._mention(texts)
        changed = {path: text for path, text in texts.items() if self._old(path) != text}
        if write:
            self._write(changed)
        return sorted(str(path.relative_to(self._project.root)) for path in changed)

    def _old(self, path: Path) -> str | None:
        return self._project.texts.get(path) if path not in self._removed else None

    def _rewritten_files(self) -> dict[Path, str]:
        texts: dict[Path, str] = {}
        for path, text in self._project.texts.items():
            texts[path] = text
            if path.suffix in {".py", ".pyi"} and self._project.package in text:
                module = self._project.module_of(path)
                home = self._moves.home(module) if module else None
                texts[path] = Rewriter(text, self._moves, home, self._modules).imports()
        return texts

    def _place(self, texts: dict[Path, str]) -> None:
        """Puts modules where they go, united with what is there."""
        arriving: dict[Path, list[tuple[str, Parts]]] = {}
        alone: dict[Path, list[Path]] = {}
        for move in self._list:
            old, new = self._project.path_of(move.old), self._new_path(move)
            assert old is not None
            if old == new:
                arriving.setdefault(new, []).insert(0, (move.old, Parts(texts[old])))
                continue
            if move.names:
                stays, moves = divide(texts[old], move.names, move.old, move.new)
                texts[old] = stays.render()
                moves.imports = [each for each in moves.imports if not _is_from(each, move.new)]
                arriving.setdefault(new, []).append((move.old, moves))
            else:
                arriving.setdefault(new, []).append((move.old, Parts(texts[old])))
                alone.setdefault(new, []).append(old)
                self._removed.append(old)
        for new, parts in arriving.items():
            there = new in texts and new not in self._removed
            if there and all(self._project.path_of(module) != new for module, _ in parts):
                module = self._project.module_of(new) or str(new.name)
                parts.insert(0, (module, Parts(texts[new])))
            if len(parts) == 1 and new in alone:
                texts[new] = texts[alone[new][0]]
                self._renamed[alone[new][0]] = new
            else:
                texts[new] = unite(str(new.relative_to(self._project.root)), parts).render()
        for old in self._removed:
            if old not in arriving:
                texts.pop(old)

    def _mention(self, texts: dict[Path, str]) -> None:
        folder = self._project.root / self._project.folder
        paths: dict[str, str] = {}
        for move in self._list:
            old = self._project.path_of(move.old)
            if old is not None and not move.names:
                new = self._new_path(move).relative_to(folder)
                paths[str(old.relative_to(folder))] = str(new)
        mentions = Mentions(self._project, self._moves, self._modules, paths)
        for path, text in texts.items():
            texts[path] = mentions.rewrite(text)
            if path.suffix == ".toml" and texts[path] != text:
                texts[path] = _without_repeated_keys(texts[path])

    def _write(self, changed: Mapping[Path, str]) -> None:
        project = self._project
        for old, new in self._renamed.items():
            new.parent.mkdir(parents=True, exist_ok=True)
            project.git("mv", str(old), str(new))
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for old in self._removed:
            if old not in changed and old not in self._renamed:
                project.git("rm", "--quiet", "--force", str(old))
        project.git("add", "--", *(str(path) for path in changed))


def direct(project: Project, package: str, write: bool = True) -> list[str]:
    """Imports what `package` re-exports from its home, and leaves the docstring of the package."""
    home = project.path_of(package)
    if home is None:
        raise MoveError(f"there is no module {package}")
    tree = ast.parse(project.texts[home])
    own_names = {name for each in Parts(project.texts[home]).chunks for name in each.defines}
    if own_names - {"__all__"}:
        raise MoveError(f"{package} defines {', '.join(sorted(own_names - {'__all__'}))}: move it")
    froms = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) and each.module]
    moves = Moves([])
    for node in froms:
        assert node.module is not None
        own = {alias.name for alias in node.names if alias.asname in {None, alias.name}}
        if node.module.startswith(f"{project.package}."):
            moves.parts |= {(package, name): node.module for name in own}
    modules = frozenset(filter(None, map(project.module_of, project.texts)))
    mentions = Mentions(project, moves, modules, {})
    changed: list[str] = []
    for path, text in project.texts.items():
        if path == home:
            new = f'"""{ast.get_docstring(tree, clean=False)}"""\n'
        elif path.suffix in {".py", ".pyi"} and package in text:
            module = project.module_of(path)
            new = mentions.rewrite(Rewriter(text, moves, module, modules).imports())
            new = _without_facade(new, package, moves)
        else:
            new = mentions.rewrite(text)
        if new != text:
            if write:
                path.write_text(new, encoding="utf-8")
            changed.append(str(path.relative_to(project.root)))
    return changed


def _without_facade(text: str, package: str, moves: Moves) -> str:
    """`package.name` becomes `name`, imported from its home."""
    tree, offsets = ast.parse(text), Offsets(text)
    folder, _, leaf = package.rpartition(".")
    edits: list[Edit] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module != folder:
            continue
        bound = {alias.asname or alias.name for alias in node.names if alias.name == leaf}
        homes: dict[str, str] = {}
        for each in ast.walk(tree):
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                home = moves.parts.get((package, each.attr))
                if each.value.id in bound and home is not None:
                    homes[each.attr] = home
                    edits.append((*offsets.of(each), each.attr))
        indent = "\n" + " " * node.col_offset
        lines = [f"from {home} import {name}" for name, home in homes.items()]
        end = offsets.of(node)[1]
        edits.append((end, end, "".join(indent + line for line in lines)))
    return apply(text, edits)


def _without_repeated_keys(text: str) -> str:
    """Files that become one had the same line each, such as an exception of the linter."""
    lines = text.splitlines(keepends=True)
    kept = [
        line for at, line in enumerate(lines) if not (line.startswith('"') and line in lines[:at])
    ]
    return "".join(kept)


def _is_from(statement: str, module: str) -> bool:
    return statement.startswith(f"from {module} import ")


def tidy(root: Path, files: Sequence[str]) -> None:
    """Sorts the imports of what was written, drops those that nobody uses, and formats it."""
    python = [name for name in files if name.endswith(".py") and not name.endswith("__init__.py")]
    ruff = [sys.executable, "-m", "ruff"]
    if python:
        rules = [
            "--select",
            "I,F401,F811,PIE790,TC005",
            "--fix",
            "--quiet",
            "--exit-zero",
            "--no-cache",
        ]
        subprocess.run([*ruff, "check", *rules, *python], cwd=root, check=False)
        subprocess.run([*ruff, "format", "--quiet", "--no-cache", *python], cwd=root, check=False)


def parse_move(old: str, new: str, package: str) -> Move | None:
    """A line of a table or a pair of arguments; None is one that goes nowhere."""
    old, _, names = old.strip().partition(":")
    new = new.partition(",")[0].strip()
    if new in {"-", ""} or old.endswith(".py") != new.endswith(".py"):
        return None
    moved = frozenset(filter(None, names.split(",")))
    is_package = new.endswith("__init__.py")
    return Move(_dotted(old, package), _dotted(new, package), moved, is_package)


def _dotted(name: str, package: str) -> str:
    if not name.endswith(".py"):
        return name
    parts = PurePosixPath(name).with_suffix("").parts
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def read_table(path: Path, only: str, package: str) -> list[Move]:
    found: list[Move] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        old, _, rest = line.partition("\t")
        move = parse_move(old, rest.partition("\t")[0], package) if old.startswith(only) else None
        if move is not None:
            found.append(move)
    return found


def apply_renames(project: Project, renames: Sequence[str]) -> None:
    for each in renames:
        place, _, new = each.partition("=")
        module, _, old = place.partition(":")
        path = project.path_of(module)
        if path is None:
            raise MoveError(f"there is no module {module}")
        project.texts[path] = rename(project.texts[path], old, new)
        pattern = re.compile(rf"from {re.escape(module)} import .*\b{old}\b")
        if users := [str(p) for p, text in project.texts.items() if pattern.search(text)]:
            raise MoveError(f"{old} of {module} is imported by {', '.join(users)}: rename it there")


def main(arguments: Sequence[str], report: Callable[[str], object] = print) -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog="See the top of tools/move_modules.py for the whole story.",
    )
    parser.add_argument("pairs", nargs="*", metavar="OLD NEW", help="modules, or module:name,name")
    parser.add_argument(
        "--table", type=Path, action="append", default=[], help="old<TAB>new per line"
    )
    parser.add_argument("--only", default="", help="the rows of the table whose old path begins so")
    parser.add_argument("--direct", default="", metavar="PACKAGE", help="end its re-exports")
    parser.add_argument("--rename", action="append", default=[], metavar="MODULE:OLD=NEW")
    parser.add_argument("--root", type=Path, default=Path.cwd())
    parser.add_argument("--package", default="torvyn")
    parser.add_argument("--dry-run", action="store_true", help="say what would change")
    chosen = parser.parse_args(arguments)
    if len(chosen.pairs) % 2:
        parser.error("each OLD needs a NEW")
    pairs = zip(chosen.pairs[::2], chosen.pairs[1::2], strict=True)
    moves = [move for old, new in pairs if (move := parse_move(old, new, chosen.package))]
    for table in chosen.table:
        moves += read_table(table, chosen.only, chosen.package)
    try:
        project = Project(chosen.root.resolve(), chosen.package)
        if chosen.direct:
            changed = direct(project, chosen.direct, write=not chosen.dry_run)
        else:
            known = [move for move in moves if project.path_of(move.old) is not None]
            if not known:
                raise MoveError("there is nothing to move")
            apply_renames(project, chosen.rename)
            changed = Mover(project, known).run(write=not chosen.dry_run)
    except MoveError as error:
        print(f"move_modules: {error}", file=sys.stderr)
        return 2
    if not chosen.dry_run:
        tidy(project.root, [name for name in changed if (project.root / name).exists()])
    for name in changed:
        report(name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
