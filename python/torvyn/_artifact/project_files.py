"""The files that a project needs, by their path in the artifact.

They are those of its components, which the digests in the lock file cover, and those that the
configs of nodes name, such as `config = { table = "devices.json" }`: a text in a config that is the
path of a file in the project is that file, except in the config of a sink, which would write it. On
another machine the same text means the packed file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from torvyn._artifact.layout import is_layout
from torvyn._artifact.lock import LockedComponent, LockedFile, file_digest, tree_digest
from torvyn._artifact.paths import LOCK_PATH, MANIFEST_PATH
from torvyn._manifest.records import ComponentRecord, FlowRecord, Manifest, NodeRecord
from torvyn._sandbox.project import ENTRIES, GuestProject, detect_language, wasm_path
from torvyn.errors import ArtifactError, Location, MissingError

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
        language = record.language or detect_language(path) or "python"
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


def named_files(flow: FlowRecord, folder: Path) -> Iterator[Path]:
    """The files of the project that the configs of a flow's nodes name."""
    for node in reading_nodes(flow):
        for text in texts(config_of(node)):
            if is_relative(text) and (folder / text).is_file():
                yield folder / text


def is_relative(text: str) -> bool:
    """Whether a text may be the path of a file in the project."""
    return bool(text) and len(text) < 512 and "\0" not in text and not text.startswith("/")


def reading_nodes(flow: FlowRecord) -> list[NodeRecord]:
    """All but the sinks."""
    senders = {edge.source.node for edge in flow.edges}
    return [node for node in flow.nodes.values() if node.name in senders]


def config_of(node: NodeRecord) -> Any:
    """The config as data; a text that is a JSON table is one."""
    config = node.config
    if isinstance(config, str) and config.lstrip().startswith("{"):
        try:
            return json.loads(config)
        except (ValueError, RecursionError):
            return config
    return config


def texts(value: Any) -> Iterator[str]:
    """All texts in a value that was JSON or TOML."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts(each)


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    folder: Path
    components: tuple[ComponentFiles, ...]
    files: dict[str, Path] = field(default_factory=dict)
    """Path in the artifact -> file; without the manifest and what packing makes itself."""
    interfaces: tuple[LockedFile, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest, include: Iterable[str] = ()) -> ProjectFiles:
        """Finds the files of a project whose components are built."""
        folder = Path(manifest.file).parent
        components = tuple(ComponentFiles.of(record, folder) for record in _records(manifest))
        files: dict[str, Path] = {}
        for component in components:
            files |= relative(list(component.packed), folder, component.record.at("path"))
        wit = wit_files(manifest, folder)
        for flow in manifest.flows.values():
            files |= relative(named_files(flow, folder), folder, flow.location)
        pack = manifest.pack
        files |= wit | _matches((*(pack.include or ()), *include), folder, pack.at("include"))
        for path in _matches(pack.exclude or (), folder, pack.at("exclude"), must_match=False):
            files.pop(path, None)
        for path in (MANIFEST_PATH, LOCK_PATH):
            files.pop(path, None)
        interfaces = tuple(LockedFile(path, file_digest(file)) for path, file in wit.items())
        return cls(folder, components, files, interfaces)


def _records(manifest: Manifest) -> list[ComponentRecord]:
    """The declared components, and the `.wasm` files that nodes name."""
    declared = {record.name: record for record in manifest.components if record.path}
    nodes = (node for flow in manifest.flows.values() for node in flow.nodes.values())
    for node in nodes:
        name = str(node.component)
        if name.endswith(".wasm") and not name.startswith("oci://"):
            place = {"path": location} if (location := node.at("component")) else {}
            declared.setdefault(name, ComponentRecord(name=name, path=name, locations=place))
    return list(declared.values())


def wit_files(manifest: Manifest, folder: Path) -> dict[str, Path]:
    """The project's own WIT, and that of its components."""
    homes = [folder, *(folder / record.path for record in manifest.components)]
    files = (path for home in homes for path in files_in(home / "wit") if path.suffix == ".wit")
    return relative(files, folder, None)


def _matches(
    patterns: Iterable[str], folder: Path, place: Location | None, *, must_match: bool = True
) -> dict[str, Path]:
    """The files that match, and those below the folders that match."""
    found: dict[str, Path] = {}
    for pattern in patterns:
        try:
            matches = [path for path in folder.glob(pattern) if not _is_hidden(path, folder)]
        except (ValueError, NotImplementedError, IndexError) as error:
            message = f"`{pattern}` is not a pattern of files in the project: {error}"
            raise ArtifactError("artifact.bad-pattern", message, location=place) from None
        files = [file for path in matches for file in _files(path)]
        if not files and must_match:
            message = f"no file in the project matches `{pattern}`"
            hint = "patterns are relative to Torvyn.toml; `**` matches any folders"
            raise ArtifactError("artifact.bad-pattern", message, location=place, hint=hint)
        found |= relative(files, folder, place)
    return found


def _files(path: Path) -> list[Path]:
    return list(files_in(path)) if path.is_dir() else [path]


def _is_hidden(path: Path, folder: Path) -> bool:
    try:
        parts = path.relative_to(folder).parts
    except ValueError:
        return False
    return any(part.startswith(".") for part in parts if part != "..")
