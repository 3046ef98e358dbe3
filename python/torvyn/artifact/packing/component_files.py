"""The files of one component: what is packed, and what its digest in the lock file covers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from torvyn._manifest.records import ComponentRecord
from torvyn.artifact.layout import is_layout
from torvyn.artifact.lock import LockedComponent, file_digest, tree_digest
from torvyn.errors import ArtifactError, Location, MissingError
from torvyn.sandbox.build.project import ENTRIES, GuestProject
from torvyn.sandbox.guest_file import detect_language, wasm_path

_SKIPPED: Final = {"__pycache__", "build", "target", "node_modules"}


@dataclass(frozen=True, slots=True)
class ComponentFiles:
    record: ComponentRecord
    language: str
    sources: dict[str, Path] = field(default_factory=dict)
    """Path in the project -> file."""
    wasm: Path | None = None
    """None for a component that runs in the process."""

    @classmethod
    def of(cls, record: ComponentRecord, folder: Path) -> ComponentFiles:
        """Finds the files of a component in the project's folder."""
        wasm = wasm_path(record, folder)
        path = folder / record.path
        language = record.language or detect_language(path)
        if wasm is None:
            root = path.parent if path.suffix == ".py" else path
            return cls(record, language, relative(files_in(root), folder, record.at("path")))
        if wasm == path or language == "wasm":
            return cls(record, "wasm", wasm=wasm)
        guest = GuestProject(record.name, path, language, record.entry)
        sources = guest.source_files if language in ENTRIES else []
        return cls(record, language, relative(sources, folder, record.at("path")), wasm)

    @property
    def packed(self) -> Iterator[Path]:
        """The files that a gateway needs: the code, not the sources that it was built from."""
        if self.wasm is None:
            yield from self.sources.values()
        else:
            yield self.wasm

    def lock(self, folder: Path) -> LockedComponent:
        name, wasm = self.record.name, self.wasm
        sources = tree_digest(self.sources) if self.sources else ""
        if wasm is None:
            return LockedComponent(name, self.language, sources)
        if not wasm.is_file():
            raise MissingError(
                "artifact.unreadable",
                f"component `{name}` has no file `{wasm}`",
                location=self.record.at("path"),
                hint="build it with `torvyn build`",
            )
        (path,) = relative([wasm], folder, self.record.at("path"))
        return LockedComponent(name, self.language, sources, path, file_digest(wasm))


def files_in(folder: Path) -> Iterator[Path]:
    """The files below a folder, without hidden ones, caches, build outputs and layouts."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name in _SKIPPED or path.suffix == ".pyc":
            continue
        if not path.is_dir():
            yield path
        elif not path.is_symlink() and not is_layout(path):
            yield from files_in(path)


def relative(
    files: Iterator[Path] | list[Path], folder: Path, place: Location | None
) -> dict[str, Path]:
    """The files by their path in the project. Each must be inside it, also after links."""
    root = folder.resolve()
    found: dict[str, Path] = {}
    for file in files:
        resolved = file.resolve()
        try:
            inside = file.parent.resolve().relative_to(root) / file.name
            resolved.relative_to(root)
        except ValueError:
            message = f"`{file}` is outside the folder of the project"
            hint = (
                "only what is inside is packed: move or copy it there; a sandboxed component of "
                "another project can be packed there with `--component`, and named as `oci:...`"
            )
            raise ArtifactError("artifact.outside", message, location=place, hint=hint) from None
        found[_name(inside, place)] = file
    return found


def _name(path: Path, place: Location | None) -> str:
    """The path in an artifact, whose names are text: on disk they are any bytes."""
    try:
        path.as_posix().encode()
    except UnicodeEncodeError:
        message = f"the name of the file `{ascii(path.as_posix())[1:-1]}` is not UTF-8"
        hint = "rename it, or leave it out with `exclude` of `[pack]`"
        raise ArtifactError("artifact.bad-path", message, location=place, hint=hint) from None
    return path.as_posix()
