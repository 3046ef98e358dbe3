"""`torvyn.lock`: the digests of a project's components, interfaces, artifacts and wheels.

It is TOML, so that a review can read its difference. `torvyn pack` writes it, if it may change. A
file that was not built here, such as a pulled component or a `.wasm` file, must match it; your own
sources may change until the next pack, unless a command is told `--locked`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from torvyn._artifact.layout import read_regular
from torvyn._artifact.oci import Digest, check_digest, digest_of, unreadable
from torvyn._io.files import tree_digest as files_digest
from torvyn._manifest.render import quote
from torvyn.errors import ArtifactError, Location, TorvynError

NAME: Final = "torvyn.lock"
SCHEMA: Final = 1
_MAX_BYTES: Final = 1 << 20
_HEADER: Final = "# Written by `torvyn pack`. Commit it together with the project.\n"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LockedComponent:
    """A component of the project."""

    name: str
    language: str
    sources: str = ""
    """The digest of its source files; empty for a `.wasm` file that came from elsewhere."""
    file: str = ""
    """The path of its `.wasm` file; empty if it runs in the process."""
    digest: str = ""
    """The digest of that file."""

    def matches(self, other: LockedComponent | None) -> bool:
        """Whether both are the same component. Every build of a sandboxed component in Python has
        other bytes, because the tool stores random numbers in it: its sources decide."""
        if other is not None and self.language == "python" and self.sources == other.sources:
            other = replace(other, digest=self.digest)
        return self == other


@dataclass(frozen=True, slots=True)
class LockedFile:
    """A WIT file or a wheel."""

    file: str
    digest: str


@dataclass(frozen=True, slots=True)
class LockedArtifact:
    """A component from a registry, as a node of the manifest names it."""

    reference: str
    digest: str
    file: str = ""
    """The path of its `.wasm` file in the artifact."""


@dataclass(frozen=True, slots=True)
class Lock:
    components: tuple[LockedComponent, ...] = ()
    interfaces: tuple[LockedFile, ...] = ()
    artifacts: tuple[LockedArtifact, ...] = ()
    wheels: tuple[LockedFile, ...] = ()

    def __post_init__(self) -> None:
        # Equal locks have equal texts, whatever the order in the manifest is.
        for each in fields(self):
            object.__setattr__(self, each.name, tuple(sorted(getattr(self, each.name), key=_first)))

    def component(self, name: str) -> LockedComponent | None:
        return next((each for each in self.components if each.name == name), None)

    def differences(self, other: Lock) -> list[str]:
        """What two locks have not in common, in words."""
        names = dict.fromkeys(each.name for each in (*self.components, *other.components))
        found = [f"component `{name}`" for name in names if not self._has_same(name, other)]
        for kind in ("interfaces", "artifacts", "wheels"):
            if getattr(self, kind) != getattr(other, kind):
                found.append(f"its {kind}")
        return found

    def _has_same(self, name: str, other: Lock) -> bool:
        own = self.component(name)
        return own is not None and own.matches(other.component(name))

    def artifact(self, reference: str) -> LockedArtifact | None:
        """What an `oci://` reference of the manifest stands for."""
        return next((each for each in self.artifacts if each.reference == reference), None)

    @classmethod
    def read(cls, folder: Path) -> Lock | None:
        """The lock of the project in a folder; None if it has none."""
        path = folder / NAME
        return cls.parse(read_regular(path, _MAX_BYTES), str(path)) if path.exists() else None

    @classmethod
    def parse(cls, data: bytes, file: str = NAME) -> Lock:
        try:
            value = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:
            raise _bad_lock(file, f"it is not valid TOML: {error}") from None
        if value.get("schema") != SCHEMA:
            raise _bad_lock(file, f"its schema is not {SCHEMA}")
        return cls(
            _entries(value, "component", LockedComponent, file),
            _entries(value, "interface", LockedFile, file),
            _entries(value, "artifact", LockedArtifact, file),
            _entries(value, "wheel", LockedFile, file),
        )

    def render(self) -> str:
        blocks = [f"{_HEADER}schema = {SCHEMA}\n"]
        tables: Mapping[str, Iterable[Any]] = {
            "component": self.components,
            "interface": self.interfaces,
            "artifact": self.artifacts,
            "wheel": self.wheels,
        }
        for name, entries in tables.items():
            blocks += [_block(name, entry) for entry in entries]
        return "\n".join(blocks)


def tree_digest(files: Mapping[str, Path]) -> Digest:
    """That of `torvyn._io.files`, for the files of a project."""
    try:
        return Digest(files_digest(files))
    except OSError as error:
        raise unreadable(Path(error.filename), error) from error


def file_digest(path: Path) -> Digest:
    try:
        return digest_of(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error


def _entries(value: Mapping[str, Any], key: str, kind: type[T], file: str) -> tuple[T, ...]:
    found = value.get(key, [])
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    entries = []
    for each in found if isinstance(found, list) else [found]:
        texts = each if isinstance(each, dict) else {"": ""}
        if not all(name in names and isinstance(text, str) for name, text in texts.items()):
            raise _bad_lock(file, f"`[[{key}]]` has other keys than {', '.join(names)}")
        entries.append(_entry(kind, texts, key, file))
    return tuple(entries)


def _entry(kind: type[T], texts: Mapping[str, str], key: str, file: str) -> T:
    try:
        for name in ("digest", "sources"):
            if texts.get(name):
                check_digest(texts[name])
        return kind(**texts)
    except (TypeError, TorvynError) as error:
        raise _bad_lock(file, f"`[[{key}]]`: {error}") from None


def _block(name: str, entry: Any) -> str:
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    lines = [f"{key} = {quote(text)}" for key, text in values.items() if text]
    return "\n".join([f"[[{name}]]", *lines, ""])


def _first(entry: Any) -> str:
    return str(getattr(entry, fields(entry)[0].name))


def _bad_lock(file: str, reason: str) -> ArtifactError:
    message = f"the lock file cannot be used: {reason}"
    hint = "write it again with `torvyn pack --update-lock`"
    return ArtifactError("artifact.bad-lock", message, location=Location(file), hint=hint)


def check_lock(
    old: Lock | None, new: Lock, folder: Path, *, is_locked: bool, updates_lock: bool
) -> None:
    """Raises unless the lock file may become `new`."""
    differences = [] if old is None else old.differences(new)
    if is_locked and (old is None or differences):
        what = f"does not match {', '.join(differences)}" if differences else "does not exist"
        message = f"the lock file {what}"
        hint = "run `torvyn pack` without `--locked`, and commit torvyn.lock"
        place = Location(str(folder / NAME))
        raise ArtifactError("artifact.lock-outdated", message, location=place, hint=hint)
    if old is None or updates_lock:
        return
    for file in _changed_files(old, new):
        message = f"`{file}` is not the file that the lock file names"
        hint = "if you replaced it on purpose, run `torvyn pack --update-lock`"
        place = Location(str(folder / NAME))
        raise ArtifactError("artifact.lock-mismatch", message, location=place, hint=hint)


def _changed_files(old: Lock, new: Lock) -> Iterator[str]:
    """The files that were not built here and have another digest than before."""
    for component in new.components:
        known = old.component(component.name)
        is_foreign = not component.sources and known is not None and not known.sources
        if is_foreign and known is not None and known.digest != component.digest:
            yield component.file
    wheels = {wheel.file: wheel.digest for wheel in old.wheels}
    for wheel in new.wheels:
        if wheels.get(wheel.file, wheel.digest) != wheel.digest:
            yield wheel.file
